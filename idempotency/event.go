package idempotency

import "log/slog"

// An EventKind says what an [Event] counts.
type EventKind int

// The kinds of events. The zero EventKind is none of them.
const (
	EventClaimed   EventKind = iota + 1 // a request claimed its key and runs the handler
	EventReplayed                       // a stored answer was sent again
	EventConflict                       // 409: in progress, or done with an answer that was not stored
	EventMismatch                       // 422: the key was used for another request
	EventReleased                       // the handler ended in a way that frees the key
	EventLeaseLost                      // another request took over from a handler that had not ended
	EventSwept                          // the store removed expired records
)

// String returns the kind as a label for a metric, such as "lease_lost".
func (k EventKind) String() string {
	switch k {
	case EventClaimed:
		return "claimed"
	case EventReplayed:
		return "replayed"
	case EventConflict:
		return "conflict"
	case EventMismatch:
		return "mismatch"
	case EventReleased:
		return "released"
	case EventLeaseLost:
		return "lease_lost"
	case EventSwept:
		return "swept"
	}
	return "unknown"
}

// An Event is one thing that happened, for [WithObserver] to count. As a value of log/slog it is redacted.
type Event struct {
	Kind EventKind
	ID   ID  // of the record; zero for EventSwept
	N    int // how many: 1, or the number of records swept

	// Status is what was answered: for EventReplayed, EventConflict and EventMismatch the status sent, for
	// EventReleased the handler's, 0 if it ended without any. Otherwise 0.
	Status int
}

// LogValue implements [slog.LogValuer]: the event without its scope, and with the first 8 characters of its key.
func (e Event) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("kind", e.Kind.String()), slog.Int("n", e.N)}
	if e.Status != 0 {
		attrs = append(attrs, slog.Int("status", e.Status))
	}
	if e.ID != (ID{}) {
		attrs = append(attrs, redacted(e.ID)...)
	}
	return slog.GroupValue(attrs...)
}

// redacted has what may be logged about a record.
func redacted(id ID) []slog.Attr {
	key := id.Key
	if len(key) > 8 {
		key = key[:8] + "…"
	}
	return []slog.Attr{slog.String("method", id.Method), slog.String("path", id.Path), slog.String("key", key)}
}
