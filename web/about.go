package web

import (
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"retune/orchestrator"
)

const shownActivations = 50

// aboutView is what the program knows of its machine and of itself.
type aboutView struct {
	Noise       []noiseView
	Activations []orchestrator.Activation
	Operations  []operation
	Spending    Spending
}

// operation is one call of the API.
type operation struct{ Method, Path, Summary string }

func (s *Server) about(c echo.Context) error {
	ctx := c.Request().Context()
	v := aboutView{Operations: s.operations()}
	var err error
	if v.Noise, err = s.noise(ctx); err != nil {
		return err
	}
	if v.Spending, err = s.spending(ctx, 0); err != nil {
		return err
	}
	if v.Activations, err = s.History.Activations(ctx, shownActivations, false); err != nil {
		return err
	}
	return s.render(c, aboutPage(s.page("About", "About"), v))
}

// operations lists the API as its description does, by path.
func (s *Server) operations() (list []operation) {
	for path, item := range s.api.OpenAPI().Paths {
		for method, op := range map[string]*operationDoc{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "DELETE": item.Delete} {
			if op != nil {
				list = append(list, operation{method, path, op.Summary})
			}
		}
	}
	slices.SortFunc(list, func(a, b operation) int {
		return strings.Compare(a.Path+a.Method, b.Path+b.Method)
	})
	return list
}
