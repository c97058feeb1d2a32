// Package fiber checks the idempotency middleware of Fiber, with its defaults but
// for the name of the key header.
package fiber

import (
	"net"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/saferetry/saferetry/conformance/internal/peertest"
)

func guard(c fiber.Ctx) error {
	switch {
	case !peertest.Known(c.Get("Authorization")):
		return fiber.ErrUnauthorized
	case c.Get("X-Limited") != "":
		return fiber.ErrTooManyRequests
	}
	return c.Next()
}

func TestFiber(t *testing.T) {
	shop := new(peertest.Shop)
	app := fiber.New()
	app.Use(guard, idempotency.New(idempotency.Config{KeyHeader: "Idempotency-Key"}))
	app.Post("/orders", func(c fiber.Ctx) error {
		order := peertest.Read(func(name string) string { return c.Get(name) })
		if order.Status != 0 {
			return fiber.NewError(order.Status)
		}
		id, body := shop.Sell(order)
		switch order.Answer {
		case "cookie":
			c.Cookie(&fiber.Cookie{Name: "session", Value: "secret"})
		case "hop":
			c.Set("Keep-Alive", "timeout=5")
		}
		c.Location("/orders/" + id)
		return c.Status(http.StatusCreated).Send(body)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
		<-served
	})
	peertest.Check(t, "github.com/gofiber/fiber/v3 v3.1.0", "http://"+l.Addr().String()+"/orders", "Idempotency-Key", shop.Count)
}
