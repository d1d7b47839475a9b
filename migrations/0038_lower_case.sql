-- Occurrences in lower case: a word that hardly has any is a name.
ALTER TABLE observed_words ADD COLUMN n_lower INTEGER NOT NULL DEFAULT 0;
ALTER TABLE word_evidence ADD COLUMN n_lower INTEGER NOT NULL DEFAULT 0;
