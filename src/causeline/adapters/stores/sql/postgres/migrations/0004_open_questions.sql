-- An open question is found by its id in every session that waits for it.
CREATE INDEX interrupt_open ON interrupt (id) WHERE state = 'open';
