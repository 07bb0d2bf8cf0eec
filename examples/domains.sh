#!/usr/bin/env bash
# Lists all domains of the registry with their number of genes, by reading all pages.
#
#   BASE_URL=http://127.0.0.1:8080/v1 API_KEY=... examples/domains.sh
#
# Needs curl 7.84 or later, and python3. A page has 50 genes, so a key of 30 requests a minute reads
# 1,500 genes a minute. If its limit is used up, the script waits for the next window.
set -euo pipefail

offset=0
total=1
pages=$(mktemp)
trap 'rm -f "$pages" "$pages.new"' EXIT
while ((offset < total)); do
    # By standard input: other users of the machine can read the arguments of a process.
    status=$(printf 'X-API-Key: %s' "$API_KEY" | curl -sS -o "$pages.new" -H @- \
        -w '%{http_code} %header{retry-after}' "$BASE_URL/genes?limit=50&offset=$offset")
    case $status in
        200*) ;;
        429* | 503*) sleep "${status#* }"; continue ;;
        *) cat "$pages.new" >&2; exit 1 ;;
    esac
    total=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["total"])' "$pages.new")
    python3 -c 'import json, sys
for gene in json.load(open(sys.argv[1]))["data"]: print(gene["domain"])' "$pages.new" >>"$pages"
    offset=$((offset + 50))
done
sort "$pages" | uniq -c
