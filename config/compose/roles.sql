-- `migrate` creates the service's role without a password. This sets the one that the compose file
-- names, on every start, so that changing it there is enough.
\set ON_ERROR_STOP on
\getenv password READER_PASSWORD
alter role gene_registry_reader login password :'password';
