package proxy

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"retune/proxy/steering"
)

// backendChange is the body of PUT /alb/backends/{id}. What is left out stays as it is; a new backend needs its
// URL, and has weight 1 unless told.
type backendChange struct {
	URL    *string `json:"url"`
	Weight *int    `json:"weight"`
	Drain  *bool   `json:"drain"` // true: no new requests, those under way finish
}

func (a *admin) listBackends(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Items []steering.BackendStatus `json:"items"`
	}{a.pool.status(time.Now())})
}

func (a *admin) getBackend(w http.ResponseWriter, r *http.Request) {
	a.answerBackend(w, http.StatusOK, r.PathValue("id"))
}

func (a *admin) answerBackend(w http.ResponseWriter, status int, id string) {
	for _, b := range a.pool.status(time.Now()) {
		if b.ID == id {
			answer(w, status, b)
			return
		}
	}
	problem(w, http.StatusNotFound, errUnknownBackend.Error(), nil)
}

// putBackend adds a backend, or changes its weight or whether it drains. No request is lost by it.
func (a *admin) putBackend(w http.ResponseWriter, r *http.Request) {
	var change backendChange
	if !decode(w, r, &change) {
		return
	}
	id := r.PathValue("id")
	added, err := a.pool.put(id, change.apply, time.Now())
	switch {
	case errors.Is(err, errOtherURL):
		problem(w, http.StatusConflict, err.Error(), nil)
	case err != nil:
		problem(w, http.StatusUnprocessableEntity, err.Error(), nil)
	case added:
		a.answerBackend(w, http.StatusCreated, id)
	default:
		a.answerBackend(w, http.StatusOK, id)
	}
}

func (c backendChange) apply(b *BackendConfig, drain *bool) (err error) {
	if c.URL != nil {
		if b.URL, err = url.Parse(*c.URL); err != nil {
			return err
		}
	}
	if c.Weight != nil {
		b.Weight = *c.Weight
	}
	if c.Drain != nil {
		*drain = *c.Drain
	}
	return nil
}

// deleteBackend takes a backend out at once; requests that it is working on finish.
func (a *admin) deleteBackend(w http.ResponseWriter, r *http.Request) {
	if err := a.pool.remove(r.PathValue("id")); err != nil {
		problem(w, http.StatusNotFound, err.Error(), nil)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
