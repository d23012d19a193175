#!/usr/bin/env bash
# Brings a Chromium for the browser tests, or says how to get one. Nothing is done where one is found.
# Exit 0: there is one, or the tests may go on without it. Exit 1: CI=true and there is none.
set -euo pipefail

found() {
	local name
	for name in chromium chromium-browser google-chrome; do
		command -v "$name" >/dev/null && return 0
	done
}

# Debian's chromium is an ordinary package; Ubuntu's is a shim that needs snap, which containers don't have.
install() {
	local id=
	[ ! -r /etc/os-release ] || id=$(. /etc/os-release && echo "$ID")
	case "$id" in
	debian)
		echo "Installing Chromium for the browser tests (apt-get, about a minute)."
		export DEBIAN_FRONTEND=noninteractive
		apt-get install -y --no-install-recommends chromium >/dev/null 2>&1 ||
			{ apt-get update -q && apt-get install -y --no-install-recommends chromium; }
		;;
	ubuntu)
		command -v snap >/dev/null || return 1
		echo "Installing Chromium for the browser tests (snap, about a minute)."
		snap install chromium
		;;
	*) return 1 ;;
	esac
}

found && exit 0
if [ "$(id -u)" = 0 ]; then
	install && found && exit 0
fi

cat >&2 <<TEXT
No Chromium was found, which the browser tests need; they are skipped. To have them:
  Debian:  sudo apt-get install chromium
  Ubuntu:  sudo snap install chromium, or Google Chrome's own .deb
  macOS:   brew install --cask chromium
TEXT
[ "${CI:-}" != true ]
