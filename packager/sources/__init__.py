"""One file for each source format: read the file, refuse what cannot be packed, say what it takes and gives."""
