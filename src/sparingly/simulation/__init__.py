"""`simulate` and what all simulations share. The compiled loops are in the folders of the settings."""
