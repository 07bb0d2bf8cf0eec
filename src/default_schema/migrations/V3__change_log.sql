-- What writes the change log and marks ranks as out of date. Statement triggers: one look at a
-- statement's rows, however many there are. They run as the schema's owner, so that a role that
-- may write keys need not be able to write the log.
--
-- Old and new rows are always matched by a FULL JOIN whose condition lets no row of either side
-- go. Plans are kept for the session, and made for its first statement: after one that changed a
-- single row, any other join would be a nested loop, and the next one over 100,000 rows would
-- not end.

CREATE FUNCTION registry.log_genes(ids uuid[], domains text[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO registry.change (scope)
    SELECT 'all' WHERE cardinality(ids) > 1000
    UNION ALL
    SELECT 'gene:' || id FROM (SELECT DISTINCT unnest(ids) AS id) g WHERE cardinality(ids) <= 1000
    UNION ALL
    SELECT 'domain:' || domain FROM (SELECT DISTINCT unnest(domains) AS domain) d
    WHERE cardinality(ids) <= 1000
$$;

CREATE FUNCTION registry.gene_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM registry.log_genes(array_agg(id), array_agg(domain)) FROM new_rows WHERE published
        HAVING count(*) > 0;
    INSERT INTO registry.rank_due SELECT DISTINCT domain FROM new_rows WHERE published;
    RETURN NULL;
END $$;

CREATE FUNCTION registry.gene_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM registry.log_genes(array_agg(id), array_agg(domain)) FROM old_rows WHERE published
        HAVING count(*) > 0;
    INSERT INTO registry.rank_due SELECT DISTINCT domain FROM old_rows WHERE published;
    RETURN NULL;
END $$;

-- Catalogue facts are what a row says about the gene; fitness, reputation, downloads and ranks
-- are counters and never logged. A gene that is unpublished before and after concerns nobody.
CREATE FUNCTION registry.gene_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM registry.log_genes(array_agg(id), array_agg(domain))
    FROM (
        SELECT CASE WHEN side = 1 THEN o.id ELSE n.id END AS id,
            CASE WHEN side = 1 THEN o.domain ELSE n.domain END AS domain
        FROM old_rows o FULL JOIN new_rows n ON o.id = n.id
        CROSS JOIN generate_series(1, 2) side
        WHERE (o.published OR n.published)
        AND (o.id, o.name, o.domain, o.fidelity, o.description, o.owner_id, o.phenotype,
            o.install_command, o.min_playground_version, o.required_fidelity, o.published)
            IS DISTINCT FROM
            (n.id, n.name, n.domain, n.fidelity, n.description, n.owner_id, n.phenotype,
            n.install_command, n.min_playground_version, n.required_fidelity, n.published)
        -- The new side alone, unless the gene moved.
        AND (side = 2 OR n.id IS NULL OR o.domain <> n.domain)
        AND CASE WHEN side = 1 THEN o.id ELSE n.id END IS NOT NULL
    ) changed
    HAVING count(*) > 0;
    INSERT INTO registry.rank_due
    SELECT DISTINCT domain
    FROM (
        SELECT unnest(ARRAY[o.domain, n.domain]) AS domain
        FROM old_rows o FULL JOIN new_rows n ON o.id = n.id
        WHERE (o.published OR n.published)
        AND (o.domain, o.fitness_score, o.published) IS DISTINCT FROM
            (n.domain, n.fitness_score, n.published)
    ) changed
    WHERE domain IS NOT NULL;
    RETURN NULL;
END $$;

CREATE FUNCTION registry.owner_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE nothing text;
BEGIN
    WITH renamed AS MATERIALIZED (
        SELECT n.id FROM old_rows o FULL JOIN new_rows n ON o.id = n.id
        WHERE o.handle IS DISTINCT FROM n.handle
    ),
    concerned AS (
        SELECT array_agg(g.id) AS ids, array_agg(g.domain) AS domains
        FROM renamed JOIN registry.gene g ON g.owner_id = renamed.id WHERE g.published
    )
    SELECT registry.log_genes(ids, domains) INTO nothing FROM concerned WHERE ids IS NOT NULL;
    RETURN NULL;
END $$;

CREATE FUNCTION registry.log_keys(hashes bytea[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO registry.change (scope)
    SELECT 'all' WHERE cardinality(hashes) > 1000
    UNION ALL
    SELECT 'key:' || encode(hash, 'hex') FROM (SELECT DISTINCT unnest(hashes) AS hash) k
    WHERE cardinality(hashes) <= 1000
$$;

CREATE FUNCTION registry.api_key_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM registry.log_keys(array_agg(key_hash)) FROM new_rows HAVING count(*) > 0;
    RETURN NULL;
END $$;

CREATE FUNCTION registry.api_key_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM registry.log_keys(array_agg(key_hash)) FROM old_rows HAVING count(*) > 0;
    RETURN NULL;
END $$;

-- By prefix, which stays when a key's secret is exchanged: then both hashes are logged.
CREATE FUNCTION registry.api_key_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM registry.log_keys(array_agg(hash))
    FROM (
        SELECT unnest(CASE WHEN o.key_hash = n.key_hash THEN ARRAY[n.key_hash]
            ELSE array_remove(ARRAY[o.key_hash, n.key_hash], NULL) END) AS hash
        FROM old_rows o FULL JOIN new_rows n ON o.prefix = n.prefix
        WHERE (o.key_hash, o.scopes, o.rate_limit_per_minute, o.expires_at, o.revoked_at)
            IS DISTINCT FROM
            (n.key_hash, n.scopes, n.rate_limit_per_minute, n.expires_at, n.revoked_at)
    ) changed
    HAVING count(*) > 0;
    RETURN NULL;
END $$;

CREATE FUNCTION registry.log_everything() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO registry.change (scope) VALUES ('all');
    RETURN NULL;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA registry FROM PUBLIC;

CREATE TRIGGER gene_inserted AFTER INSERT ON registry.gene
    REFERENCING NEW TABLE AS new_rows EXECUTE FUNCTION registry.gene_inserted();
CREATE TRIGGER gene_deleted AFTER DELETE ON registry.gene
    REFERENCING OLD TABLE AS old_rows EXECUTE FUNCTION registry.gene_deleted();
CREATE TRIGGER gene_updated AFTER UPDATE ON registry.gene
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    EXECUTE FUNCTION registry.gene_updated();
CREATE TRIGGER gene_truncated AFTER TRUNCATE ON registry.gene
    EXECUTE FUNCTION registry.log_everything();

CREATE TRIGGER owner_updated AFTER UPDATE ON registry.owner
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    EXECUTE FUNCTION registry.owner_updated();
CREATE TRIGGER owner_truncated AFTER TRUNCATE ON registry.owner
    EXECUTE FUNCTION registry.log_everything();

CREATE TRIGGER api_key_inserted AFTER INSERT ON registry.api_key
    REFERENCING NEW TABLE AS new_rows EXECUTE FUNCTION registry.api_key_inserted();
CREATE TRIGGER api_key_deleted AFTER DELETE ON registry.api_key
    REFERENCING OLD TABLE AS old_rows EXECUTE FUNCTION registry.api_key_deleted();
CREATE TRIGGER api_key_updated AFTER UPDATE ON registry.api_key
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    EXECUTE FUNCTION registry.api_key_updated();
CREATE TRIGGER api_key_truncated AFTER TRUNCATE ON registry.api_key
    EXECUTE FUNCTION registry.log_everything();
