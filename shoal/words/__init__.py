"""Words: what the index stores of a text, and what a query asks it for. `analysis` says what a word is."""
