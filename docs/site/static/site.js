// A page that was opened as a file may not read other files: without this, each result of a search would log an error.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
