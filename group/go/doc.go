//go:build linux

// Package group lets a Go server be a replica behind truechimer group front: all replicas get the same requests in
// the same order, one at a time, and each request has one time, the same at all of them.
//
// Go programs make their system calls by themselves, so the library that truechimer group exec preloads sees nothing
// of what they read, and of the time. A server says so itself, by this package: no cgo, and nothing but the standard
// library.
//
// The program is to avoid all that makes answers differ between replicas: [time.Now], random numbers, the order of a map,
// the host's name, what another goroutine does by a timer.
package group
