package saferetry

import (
	"fmt"
	"math"
	"sync/atomic"
)

// Budget bounds the retries of all the operations that share it, so that
// clients do not multiply the load of a server that is down. Each operation's
// first attempt earns a part of a retry, each retry costs one, and when nothing
// is left an operation ends with its last answer and reason BudgetSpent. In a
// lasting outage the attempts per operation so approach 1 + ratio.
//
// Make it with [NewBudget]; it is safe for concurrent use by any number of
// clients, and takes no lock.
type Budget struct {
	earned, most microRetries
	balance      atomic.Int64 // in microRetries
}

// microRetries are millionths of a retry: sums of them are exact.
type microRetries = int64

const oneRetry microRetries = 1_000_000

// NewBudget returns a budget of which each first attempt earns ratio retries,
// and which saves at most burst of them. It starts full. It panics when ratio is
// not from 0 to 1000, or burst not from 1 to 1,000,000,000.
func NewBudget(ratio float64, burst int) *Budget {
	if !(ratio >= 0 && ratio <= 1000) {
		panic(fmt.Sprintf("saferetry: NewBudget: ratio %v: want 0 to 1000", ratio))
	}
	if burst < 1 || burst > 1_000_000_000 {
		panic(fmt.Sprintf("saferetry: NewBudget: burst %d: want 1 to 1000000000", burst))
	}
	b := &Budget{earned: microRetries(math.Round(ratio * float64(oneRetry))), most: microRetries(burst) * oneRetry}
	b.balance.Store(b.most)
	return b
}

// earn is called for each first attempt. A full budget, as that of a healthy
// service is, is only read.
func (b *Budget) earn() {
	for {
		balance := b.balance.Load()
		if balance == b.most || b.balance.CompareAndSwap(balance, min(balance+b.earned, b.most)) {
			return
		}
	}
}

// refund takes back what was spent on a retry that was not made.
func (b *Budget) refund() {
	for {
		balance := b.balance.Load()
		if b.balance.CompareAndSwap(balance, min(balance+oneRetry, b.most)) {
			return
		}
	}
}

// spend pays for one retry, or is false.
func (b *Budget) spend() bool {
	for {
		balance := b.balance.Load()
		if balance < oneRetry {
			return false
		}
		if b.balance.CompareAndSwap(balance, balance-oneRetry) {
			return true
		}
	}
}
