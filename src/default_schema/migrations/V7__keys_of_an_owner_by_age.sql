-- A page of an owner's keys, newest first, without reading the others.
CREATE INDEX api_key_owner_created ON registry.api_key (owner, created_at DESC, prefix);
