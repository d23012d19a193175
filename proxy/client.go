package proxy

import (
	"net/http"
	"net/netip"
	"strings"

	"retune/proxy/wire"
)

// origin is where a request came from.
type origin struct {
	peer   netip.Addr // the other end of the connection
	client netip.Addr // who that speaks for: the peer, unless it is trusted and names somebody
	via    bool       // the peer is trusted
}

// originOf finds the client of a request on the full lane.
func originOf(r *http.Request, trusted []netip.Prefix) origin {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr)
	peer := ap.Addr().Unmap()
	return findClient(peer, r.Header["X-Forwarded-For"], trusted)
}

// findClient finds the client behind a peer. lines are the values of X-Forwarded-For. A trusted peer's X-Forwarded-For is read from the right: the first address that is
// not trusted itself is the client; what stands left of it anybody could have written.
func findClient(peer netip.Addr, lines []string, trusted []netip.Prefix) origin {
	o := origin{peer: peer, client: peer, via: contains(trusted, peer)}
	if !o.via {
		return o
	}
	for i := len(lines) - 1; i >= 0; i-- {
		for rest := lines[i]; rest != ""; {
			var last string
			rest, last = cutLast(rest)
			a, ok := parseClient(last)
			if !ok {
				return o
			}
			o.client = a
			if !contains(trusted, a) {
				return o
			}
		}
	}
	return o
}

// cutLast splits the last element off a comma-separated list.
func cutLast(list string) (rest, last string) {
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		return list[:i], strings.TrimSpace(list[i+1:])
	}
	return "", strings.TrimSpace(list)
}

// parseClient reads an address as proxies write it: with or without port, IPv6 with or without brackets.
func parseClient(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return a.Unmap().WithZone(""), true
	}
	ap, err := netip.ParseAddrPort(s)
	return ap.Addr().Unmap().WithZone(""), err == nil
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// setForwarded tells the backend where the request came from. ReverseProxy has dropped what the client sent in
// Forwarded and X-Forwarded-*; a trusted peer's is put back, and the peer appended.
func setForwarded(out http.Header, in *http.Request, o origin) {
	for name := range out {
		if f := wire.FieldOf(name); f == wire.XForwardedSpoofed || f == wire.XForwardedOther && !o.via {
			delete(out, name)
		}
	}
	chain, proto, host := o.peer.String(), "http", in.Host
	if wire.Secure(in.Context()) {
		proto = "https"
	}
	if o.via {
		if f := in.Header["X-Forwarded-For"]; len(f) > 0 {
			chain = strings.Join(f, ", ") + ", " + chain
		}
		if p := in.Header.Get("X-Forwarded-Proto"); p == "http" || p == "https" {
			proto = p
		}
		if h := in.Header.Get("X-Forwarded-Host"); h != "" {
			host = h
		}
	}
	values := []string{chain, proto, host} // one allocation for all three
	out["X-Forwarded-For"] = values[0:1:1]
	out["X-Forwarded-Proto"] = values[1:2:2]
	out["X-Forwarded-Host"] = values[2:3:3]
}
