package testserver

import (
	"fmt"
	"slices"
	"sync"
)

// A Charge is one that took effect.
type Charge struct {
	ID       string `json:"id"`       // ch_1, ch_2, …
	Key      string `json:"-"`        // the key of the operation that made it, bare
	Amount   int64  `json:"amount"`   // in the currency's smallest unit
	Currency string `json:"currency"` // ISO 4217, lower case
	Customer string `json:"customer"`
	Retries  int64  `json:"retries"` // a counter, incremented by PATCH
}

// A ledger holds what took effect. Transactions alone change it.
type ledger struct {
	mu         sync.Mutex // held by a commit for as long as it lasts
	begun      int        // charges, for their IDs
	rows       []*row
	executions map[string]int // by key
}

// A row is a charge and the tenant it belongs to.
type row struct {
	changing sync.Mutex // held by a transaction from its change to its end
	tenant   string
	charge   Charge // guarded by ledger.mu
}

func newLedger() *ledger {
	return &ledger{executions: make(map[string]int)}
}

// list returns the tenant's charges in the order they took effect.
func (l *ledger) list(tenant string) []Charge {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := []Charge{}
	for _, r := range l.rows {
		if r.tenant == tenant {
			found = append(found, r.charge)
		}
	}
	return found
}

// find returns the tenant's charge with the given ID, or nil.
func (l *ledger) find(tenant, id string) *row {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.rows, func(r *row) bool { return r.tenant == tenant && r.charge.ID == id })
	if i < 0 {
		return nil
	}
	return l.rows[i]
}

// read returns the charge as it is now.
func (l *ledger) read(r *row) Charge {
	l.mu.Lock()
	defer l.mu.Unlock()
	return r.charge
}

// newID returns the ID of a charge to be made. If it is never made there is a
// gap, as in a database's sequence.
func (l *ledger) newID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	return fmt.Sprintf("ch_%d", l.begun)
}

// Charges returns a copy of what took effect, in that order.
func (s *Server) Charges() []Charge {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	all := make([]Charge, len(s.ledger.rows))
	for i, r := range s.ledger.rows {
		all[i] = r.charge
	}
	return all
}

// Executions returns how often the operation under key (bare, without quotes)
// took effect: 0 if it never did, and more than 1 if its record expired and it
// was performed again, or if the key was used for more than one path or tenant.
func (s *Server) Executions(key string) int {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	return s.ledger.executions[key]
}
