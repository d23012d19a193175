// Package demo is a backend whose speed, concurrency and health a scenario can turn.
package demo
