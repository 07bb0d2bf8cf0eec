-- Records the use of keys, for a role that has no other privilege. It runs as the schema's owner, so
-- that this role can read or change nothing else of the keys.
CREATE FUNCTION registry.record_key_usage(hashes bytea[], times timestamptz[], requests bigint[])
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    -- In the order of hashes, so that concurrent replicas lock rows in one order and never deadlock.
    INSERT INTO registry.api_key_usage AS known (key_hash, last_used_at, request_count)
    SELECT key_hash, least(used.at, now()), greatest(used.count, 0)
    FROM unnest(hashes, times, requests) AS used (key_hash, at, count)
    JOIN registry.api_key USING (key_hash)
    ORDER BY key_hash
    ON CONFLICT (key_hash) DO UPDATE SET
        last_used_at = greatest(known.last_used_at, excluded.last_used_at),
        request_count = least(known.request_count::numeric + excluded.request_count,
            9223372036854775807)::bigint
$$;

REVOKE ALL ON FUNCTION registry.record_key_usage(bytea[], timestamptz[], bigint[]) FROM PUBLIC;

-- Roles that could record use until now go on to.
DO $$
DECLARE
    writer regrole;
BEGIN
    FOR writer IN
        SELECT DISTINCT acl.grantee::regrole
        FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) acl
        WHERE c.oid = 'registry.api_key_usage'::regclass AND acl.privilege_type = 'INSERT'
            AND acl.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION
            registry.record_key_usage(bytea[], timestamptz[], bigint[]) TO %s', writer);
    END LOOP;
END $$;
