-- A statement over more than 1,000 rows concerns all genes or all keys, not both.

CREATE OR REPLACE FUNCTION registry.log_genes(ids uuid[], domains text[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO registry.change (scope)
    SELECT 'genes' WHERE cardinality(ids) > 1000
    UNION ALL
    SELECT 'gene:' || id FROM (SELECT DISTINCT unnest(ids) AS id) g WHERE cardinality(ids) <= 1000
    UNION ALL
    SELECT 'domain:' || domain FROM (SELECT DISTINCT unnest(domains) AS domain) d
    WHERE cardinality(ids) <= 1000
$$;

CREATE OR REPLACE FUNCTION registry.log_keys(hashes bytea[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO registry.change (scope)
    SELECT 'keys' WHERE cardinality(hashes) > 1000
    UNION ALL
    SELECT 'key:' || encode(hash, 'hex') FROM (SELECT DISTINCT unnest(hashes) AS hash) k
    WHERE cardinality(hashes) <= 1000
$$;
