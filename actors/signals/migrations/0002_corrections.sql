-- Expand: exports of the history look up corrections and gaps for each slice.

CREATE INDEX IF NOT EXISTS signals_corrections ON signals (cursor_ms) WHERE change NOT IN ('event', 'restored');
