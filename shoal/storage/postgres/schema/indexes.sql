-- The indexes of the SQLite schema, under the same names. A B-tree of PostgreSQL cannot hold values over 2,704 bytes, so
-- columns whose values can be longer have an SP-GiST index, which finds equal values and ranges as well, or are left out.

CREATE INDEX idx_documents_source_path ON documents USING spgist (source_path);
CREATE INDEX idx_jobs_status ON jobs(status);
CREATE INDEX idx_waves_open ON waves(stage) WHERE stage <> 'done';
CREATE INDEX idx_job_items_status ON job_items(job_id, status, seq);
CREATE INDEX idx_custom_words_version ON custom_words(from_version);
CREATE UNIQUE INDEX idx_observed_documents_live ON observed_documents(content_hash)
    WHERE state IN ('pending', 'learned');
CREATE INDEX idx_observed_documents_open ON observed_documents(state, job_id, wave)
    WHERE state <> 'learned' OR stored = 0;

-- Of the documents with metadata only their ids, because the values can be long.
CREATE INDEX idx_documents_metadata ON documents(id) WHERE metadata <> '{}';
CREATE INDEX idx_chunks_section_id ON chunks(section_id);
CREATE INDEX idx_chunks_confidence ON chunks(confidence);
CREATE INDEX idx_chunks_staleness ON chunks(data_checksum, vocabulary_version);
CREATE INDEX idx_chunks_top_reef ON chunks(top_reef_id, top_reef_probability);
CREATE INDEX idx_tag_totals_frequent ON tag_totals(n_documents DESC, tag);
CREATE INDEX idx_document_tags_tag ON document_tags(tag, document_id);
CREATE INDEX idx_chunks_document_reefs ON chunks(document_id, top_reef_id, top_reef_probability);
CREATE INDEX idx_custom_words_frequent ON custom_words(n_occurrences DESC, word, from_version)
    WHERE retired = 0;
CREATE INDEX idx_changed_documents_open ON changed_documents(document_id) WHERE is_indexed = 0;
CREATE INDEX idx_document_files_hash ON document_files(file_hash);
CREATE INDEX idx_job_items_same ON job_items(content_hash, job_id, seq)
    WHERE status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring');
CREATE INDEX idx_job_items_replacing ON job_items(document_id, job_id, seq)
    WHERE content_hash IS NOT NULL AND document_id IS NOT NULL
      AND status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring');
CREATE INDEX idx_job_items_open ON job_items(status, job_id, wave, seq, n_bytes)
    WHERE status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring');
CREATE INDEX idx_job_items_path ON job_items USING spgist (source_path)
    WHERE source_path IS NOT NULL AND status IN ('enqueued', 'converting', 'converted', 'discovering', 'discovered', 'scoring');
CREATE INDEX idx_job_items_by_path ON job_items USING spgist (source_path) WHERE by_path = 1;
CREATE UNIQUE INDEX idx_notes_changes ON notes(owner, change_number);
CREATE INDEX idx_notes_hash ON notes(owner, text_hash);
CREATE INDEX idx_notes_dedup ON notes(owner, deprecated_at, dedup_verified, id);
CREATE INDEX idx_notes_scored ON notes(vocabulary_version, data_checksum);
CREATE INDEX idx_notes_pinned ON notes(owner, id) WHERE pinned_by IS NOT NULL AND deprecated_at IS NULL;
CREATE INDEX idx_note_feedback_note ON note_feedback(note_id, id);
CREATE INDEX idx_note_history_note ON note_history(note_id, id);
CREATE INDEX idx_agent_sessions_waiting ON agent_sessions(waiting_since)
    WHERE waiting_since IS NOT NULL;
CREATE INDEX idx_shown_notes_note ON shown_notes(note_id);
CREATE INDEX idx_hook_events_owner ON hook_events(owner, id);
CREATE INDEX idx_hook_events_session ON hook_events(owner, session_id);
CREATE INDEX idx_note_merges_owner ON note_merges(owner, id);
CREATE UNIQUE INDEX idx_merge_proposals_notes ON merge_proposals(owner, note_ids)
    WHERE status = 'open';
CREATE INDEX idx_merge_proposals_status ON merge_proposals(owner, status, id);
CREATE INDEX idx_fetched_pages_document ON fetched_pages(document_id);
CREATE INDEX idx_note_requests_created ON note_requests(created_at);
CREATE INDEX idx_agent_sessions_updated ON agent_sessions(updated_at);
CREATE INDEX idx_shown_notes_shown ON shown_notes(shown_at);
CREATE INDEX idx_changed_fields_revision ON changed_fields(revision);
CREATE INDEX idx_chunk_vectors_text ON chunk_vectors(text_hash);
CREATE INDEX idx_saved_searches_due ON saved_searches(evaluated) WHERE is_active = 1;
CREATE UNIQUE INDEX idx_saved_search_changes_open ON saved_search_changes(document_id)
    WHERE evaluation IS NULL;
CREATE INDEX idx_saved_search_changes_evaluation ON saved_search_changes(evaluation);
CREATE INDEX idx_webhook_deliveries_due ON webhook_deliveries(due_at) WHERE status = 'waiting';
CREATE INDEX idx_webhook_deliveries_search ON webhook_deliveries(saved_search_id, status, id);
CREATE INDEX idx_webhook_deliveries_updated ON webhook_deliveries(updated_at) WHERE status <> 'waiting';
CREATE INDEX idx_logged_queries_normalized ON logged_queries USING spgist (normalized);
CREATE INDEX idx_logged_queries_created ON logged_queries(created_at);
CREATE INDEX idx_logged_queries_empty ON logged_queries(id) WHERE n_results = 0;
CREATE UNIQUE INDEX idx_query_clicks ON query_clicks(query_id, document_id, COALESCE(chunk_id, 0));
CREATE INDEX idx_synonym_words_synonym ON synonym_words(synonym_id);
CREATE INDEX idx_acronyms_documents ON acronyms(status, n_documents DESC, acronym);
CREATE INDEX idx_acronyms_synonym ON acronyms(synonym_id) WHERE synonym_id IS NOT NULL;
CREATE INDEX idx_acronym_documents_document ON acronym_documents(document_id);
