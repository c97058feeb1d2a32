package main

import "time"

// The setting. Time is counted from the moment the server goes down.
const (
	clients     = 10_000
	processes   = 100 // that have them, and a budget each
	outage      = 10 * time.Second
	noticeTime  = time.Second // within which all clients have noticed that their connections are gone
	warmup      = 5 * time.Second
	horizon     = 120 * time.Second
	minPause    = 5 * time.Second // between a client's operations
	maxPause    = 20 * time.Second
	retryAfter  = 2 * time.Second // what a refusal asks for, where it does
	capacity    = 1_000           // attempts a second
	serviceTime = time.Second / capacity
	refusalTime = serviceTime / 10 // what it costs the server to refuse an attempt
	maxQueue    = time.Second      // of work; an attempt beyond is refused
)

// What clients do by default.
const (
	waitBase = 200 * time.Millisecond
	waitMax  = 30 * time.Second
)

// The budget of each process: a retry for every ten operations, and ten saved.
const (
	budgetRatio = 0.1
	budgetBurst = 10
)

// seed makes the simulation's randomness the same each time.
const seed = 1
