"""Arrays to text, files and pictures. Nothing here trains."""
