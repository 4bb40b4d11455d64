#!/bin/sh
# Makes, in this folder, a folder for the server and for each of three sites, their identities, their tables, one plan for all,
# and .env with its digest, which compose reads. OWNER is the user of the containers; another one needs no root here.
set -eu
cd "$(dirname "$0")"
OWNER="${OWNER:-10001}"
export OWNER
DIGEST=
export DIGEST

of() {  # of PARTY COMMAND...: runs fastlloyd in the container of a party
  party="$1"
  shift
  docker compose run --rm --no-deps "$party" "$@"
}

for party in server north south west; do
  mkdir "$party"
  chown "$OWNER" "$party"
  chmod 700 "$party"
  of "$party" keygen --name "$party"
done

# each site's own table: a third of the visits
part=0
for site in north south west; do
  awk -v part="$part" 'NR == 1 || NR % 3 == part' ../visits.csv > "$site/visits.csv"
  part=$((part + 1))
  # all runs on these records together; set before the first run, and not raised
  of "$site" ledger limit --dataset visits --new --epsilon 3 --delta 1e-6
done

# north makes the plan, from public files only
cp server/server.public.toml south/south.public.toml west/west.public.toml ../visits-bounds.toml north/
of north plan new --study "Visits at three sites" --features age,days,medicines --bounds visits-bounds.toml \
  -k 4 --epsilon 1 --n-expected 5000 \
  --member north.public.toml:2000 --member south.public.toml:2000 --member west.public.toml:2000 \
  --server server.public.toml --address server:8443
for party in server south west; do
  cp north/plan.toml "$party/"
done
chown -R "$OWNER" server north south west

# real sites compare it over a different channel, such as the telephone
printf 'OWNER=%s\nDIGEST=%s\n' "$OWNER" "$(of north plan digest plan.toml | tr -d ' \n')" > .env
