-- What a key's rotation leaves behind: the key that took its place, and when it would have ended
-- without the rotation ('infinity' for never). Neither is shown by a view, nor logged as a change.
ALTER TABLE registry.api_key
    ADD COLUMN replaced_by bytea REFERENCES registry.api_key
        ON UPDATE CASCADE ON DELETE SET NULL,
    ADD COLUMN first_expires_at timestamptz;

-- For the reference, when a key is deleted.
CREATE INDEX api_key_replaced_by ON registry.api_key (replaced_by)
    WHERE replaced_by IS NOT NULL;
