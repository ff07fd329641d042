"""The laboratory: experiments described in files, figures, tables. Needs the extra `lab`."""
