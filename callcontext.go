package saferetry

import (
	"context"
	"runtime"
)

// callContext is the context of one call that Do makes. It ends with the
// caller's, and before that when the call fails or takes too long. After a
// success it goes on, since the call's result may still read a body under it.
type callContext struct {
	context.Context
	op     *operation
	cancel context.CancelFunc
}

// newCallContext leaves it to the garbage collector to part the context from
// the caller's once nothing uses it any longer: each success would add to a
// long-lived caller's context otherwise.
func newCallContext(op *operation) *callContext {
	parent := &callParent{Context: op.ctx}
	ctx, cancel := context.WithCancel(parent)
	c := &callContext{ctx, op, cancel}
	if parent.unlink != nil {
		runtime.AddCleanup(c, func(unlink func() bool) { unlink() }, parent.unlink)
	}
	return c
}

// Value answers for the operation and its key.
func (c *callContext) Value(key any) any {
	switch key {
	case operationKey{}:
		return c.op
	case keyContext{}:
		return c.op.key
	}
	return c.Context.Value(key)
}

// callParent is the caller's context as a parent from which a child can be
// parted without being cancelled. Cancelling closes the child's channel, and that
// is fatal outside the testing/synctest bubble in which the call was made.
type callParent struct {
	context.Context
	linked bool
	unlink func() bool // nil where the caller's context is never cancelled
}

// AfterFunc is what the context package links a context to its parent by, if
// the parent is not one of its own.
func (p *callParent) AfterFunc(f func()) (stop func() bool) {
	p.linked = true
	p.unlink = context.AfterFunc(p.Context, f)
	return p.unlink
}

// Value hides, until a child is linked, that the caller's context may be one of
// the context package's own.
func (p *callParent) Value(key any) any {
	if p.linked {
		return p.Context.Value(key)
	}
	return context.WithoutCancel(p.Context).Value(key)
}
