-- The change log of a registry that has views of its own: `migrate --only change-log`. Idempotent.
-- The functions that fill it, registry.log_genes and registry.log_keys, are those of the migrations.

CREATE SCHEMA IF NOT EXISTS registry;
CREATE SCHEMA IF NOT EXISTS registry_read;

-- Append-only: which catalogue facts changed, in which transaction.
CREATE TABLE IF NOT EXISTS registry.change (
    scope text NOT NULL,
    changed_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- What exists is not even tried: that would wait for open transactions, and make writers wait.
DO $$
BEGIN
    IF to_regclass('registry.change_changed_in') IS NULL THEN
        CREATE INDEX change_changed_in ON registry.change (changed_in);
    END IF;
    IF to_regclass('registry.change_changed_at') IS NULL THEN
        CREATE INDEX change_changed_at ON registry.change (changed_at);
    END IF;
    IF to_regclass('registry_read.change') IS NULL THEN
        CREATE VIEW registry_read.change AS SELECT scope, changed_in, changed_at FROM registry.change;
    END IF;
END $$;

-- A query for the rows of another one that are different before and after a statement. The other
-- one reads the table `changed`: first the statement's old rows, then its new ones. It may end with a
-- comment. Rows are compared as text: values of some types have no equality, and others are equal though
-- they are shown differently, such as texts in a collation that ignores case.
CREATE OR REPLACE FUNCTION registry.differing_rows(operation text, query text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format(E'WITH before AS (WITH changed AS (SELECT * FROM %2$s) %1$s\n),
            after AS (WITH changed AS (SELECT * FROM %3$s) %1$s\n)
        SELECT row_before.* FROM before row_before WHERE NOT EXISTS (
            SELECT FROM after row_after
            WHERE row_after::text COLLATE "C" = row_before::text COLLATE "C")
        UNION ALL SELECT row_after.* FROM after row_after WHERE NOT EXISTS (
            SELECT FROM before row_before
            WHERE row_before::text COLLATE "C" = row_after::text COLLATE "C")',
        query,
        CASE operation WHEN 'INSERT' THEN 'new_rows WHERE false' ELSE 'old_rows' END,
        CASE operation WHEN 'DELETE' THEN 'old_rows WHERE false' ELSE 'new_rows' END)
$$;

-- Logs that all genes or keys may have changed, where a trigger cannot tell which: the application that
-- writes to the table must not fail because of the log.
CREATE OR REPLACE FUNCTION registry.log_unknown_changes(scope text, watched regclass, reason text)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO registry.change (scope) VALUES (scope);
    RAISE WARNING 'the change log of the gene registry cannot tell which % changed in %: %',
        scope, watched, reason
        USING HINT = format('The change is logged as a change of all %1$s. Correct the query of '
            'registry.watch_%1$s for %2$s.', scope, watched);
END $$;

-- The triggers. They run as their owner, so that a role that may write genes or keys need not be able
-- to write the log. The first columns of their query are the ids and domains of genes, or the hashes
-- of keys. Where the query fails, or returns no id or hash, they log all genes or keys. Only errors
-- that roll back the whole transaction, such as deadlocks, are passed on. With extra_float_digits, each
-- number has a text of its own.
CREATE OR REPLACE FUNCTION registry.log_changed_genes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    ids uuid[];
    domains text[];
    reason text;
BEGIN
    BEGIN
        EXECUTE format('SELECT array_agg(id), array_agg(domain) FILTER (WHERE domain IS NOT NULL),
                CASE WHEN bool_or(id IS NULL) THEN ''the id of a gene is null'' END
            FROM (%s) differing (id, domain)', registry.differing_rows(TG_OP, TG_ARGV[0]))
            INTO ids, domains, reason;
    EXCEPTION
        WHEN transaction_rollback THEN RAISE;
        WHEN others THEN reason := SQLERRM;
    END;
    IF reason IS NULL THEN
        PERFORM registry.log_genes(ids, domains);
    ELSE
        PERFORM registry.log_unknown_changes('genes', TG_RELID, reason);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION registry.log_changed_keys() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    hashes bytea[];
    reason text;
BEGIN
    BEGIN
        EXECUTE format('SELECT array_agg(hash),
                CASE WHEN bool_or(hash IS NULL) THEN ''the hash of a key is null'' END
            FROM (%s) differing (hash)', registry.differing_rows(TG_OP, TG_ARGV[0]))
            INTO hashes, reason;
    EXCEPTION
        WHEN transaction_rollback THEN RAISE;
        WHEN others THEN reason := SQLERRM;
    END;
    IF reason IS NULL THEN
        PERFORM registry.log_keys(hashes);
    ELSE
        PERFORM registry.log_unknown_changes('keys', TG_RELID, reason);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION registry.log_everything() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO registry.change (scope) VALUES ('all');
    RETURN NULL;
END $$;

-- Fails unless the triggers on a table can use a query: runs it over no rows, with the rights that the
-- triggers have, and checks the types of its first columns. A domain is accepted for the type that it is
-- based on, and any type of strings for text.
CREATE OR REPLACE FUNCTION registry.check_log_query(
    watched regclass, query text, names text[], types regtype[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    expected constant text := (SELECT 'The query is one SELECT from the table changed, without a '
        'semicolon at its end. Its first columns are: ' || string_agg(format('%s %s', name, type), ', ')
        || '. Name other tables with their schemas.'
        FROM unnest(names, types) expected (name, type));
    found regtype[];
    wrong text;
BEGIN
    BEGIN
        EXECUTE format('WITH old_rows AS (SELECT (NULL::%1$s).* WHERE false),
                new_rows AS (TABLE old_rows)
            SELECT ARRAY[%2$s] FROM (VALUES (1)) one_row LEFT JOIN (%3$s) query (%4$s) ON false',
            watched, (SELECT string_agg(format('pg_typeof(%I)', name), ', ') FROM unnest(names) name),
            registry.differing_rows('UPDATE', query), array_to_string(names, ', ')) INTO found;
    EXCEPTION WHEN others THEN
        RAISE EXCEPTION 'the query for % fails: %', watched, SQLERRM
            USING ERRCODE = SQLSTATE, HINT = expected;
    END;
    WITH RECURSIVE bases (n, type) AS (
        SELECT n, found[n]::oid FROM generate_subscripts(types, 1) n
        UNION ALL
        SELECT n, typbasetype FROM bases JOIN pg_type ON oid = type WHERE typbasetype <> 0
    )
    SELECT string_agg(format('column %s is %s instead of %s', number, found[number], types[number]), ', ')
        INTO wrong FROM generate_subscripts(types, 1) number
        WHERE NOT EXISTS (
            SELECT FROM bases JOIN pg_type ON oid = type WHERE n = number
            AND (type = types[n] OR types[n] = 'text'::regtype AND typcategory = 'S'));
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'the query for % has other columns: %', watched, wrong
            USING ERRCODE = 'datatype_mismatch', HINT = expected;
    END IF;
END $$;

-- Creates the triggers on a table, or replaces them.
CREATE OR REPLACE FUNCTION registry.create_log_triggers(watched regclass, log text, query text)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
    operation text;
    tables text;
BEGIN
    FOREACH operation IN ARRAY ARRAY['INSERT', 'UPDATE', 'DELETE'] LOOP
        tables := concat(CASE WHEN operation <> 'INSERT' THEN 'OLD TABLE AS old_rows ' END,
            CASE WHEN operation <> 'DELETE' THEN 'NEW TABLE AS new_rows' END);
        EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s',
            'gene_registry_' || lower(operation), watched);
        EXECUTE format('CREATE TRIGGER %I AFTER %s ON %s REFERENCING %s
            FOR EACH STATEMENT EXECUTE FUNCTION registry.%I(%L)',
            'gene_registry_' || lower(operation), operation, watched, tables, log, query);
    END LOOP;
    EXECUTE format('DROP TRIGGER IF EXISTS gene_registry_truncate ON %s', watched);
    EXECUTE format('CREATE TRIGGER gene_registry_truncate AFTER TRUNCATE ON %s
        FOR EACH STATEMENT EXECUTE FUNCTION registry.log_everything()', watched);
END $$;

CREATE OR REPLACE FUNCTION registry.watch_genes(watched regclass, query text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT registry.check_log_query(watched, query, '{id,domain}', '{uuid,text}');
    SELECT registry.create_log_triggers(watched, 'log_changed_genes', query)
$$;

CREATE OR REPLACE FUNCTION registry.watch_keys(watched regclass, query text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT registry.check_log_query(watched, query, '{hash}', '{bytea}');
    SELECT registry.create_log_triggers(watched, 'log_changed_keys', query)
$$;

REVOKE ALL ON FUNCTION registry.differing_rows(text, text),
    registry.log_unknown_changes(text, regclass, text), registry.log_changed_genes(),
    registry.log_changed_keys(), registry.log_everything(),
    registry.check_log_query(regclass, text, text[], regtype[]),
    registry.create_log_triggers(regclass, text, text), registry.watch_genes(regclass, text),
    registry.watch_keys(regclass, text)
    FROM PUBLIC;
