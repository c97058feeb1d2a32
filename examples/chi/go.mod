module github.com/saferetry/saferetry/examples/chi

go 1.25.0

require (
	github.com/go-chi/chi/v5 v5.5.0
	github.com/saferetry/saferetry v0.0.0
)

replace github.com/saferetry/saferetry => ../..
