"""The console: pages for people, drawn on the server, kept alive by small scripts."""
