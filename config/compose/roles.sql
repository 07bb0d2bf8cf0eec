-- `migrate` creates the service's roles without passwords. This script sets the passwords that the
-- compose file names. It runs at every start, so it is enough to change them there.
\set ON_ERROR_STOP on
\getenv password READER_PASSWORD
alter role gene_registry_reader login password :'password';
\getenv usage_password USAGE_PASSWORD
\if :{?usage_password}
    alter role gene_registry_usage login password :'usage_password';
\endif
\getenv keys_password KEYS_PASSWORD
\if :{?keys_password}
    alter role gene_registry_keys login password :'keys_password';
\endif
