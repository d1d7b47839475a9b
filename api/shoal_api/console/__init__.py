"""The console: HTML pages rendered on the server, with small scripts for live updates."""
