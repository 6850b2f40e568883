//go:build !linux

package main

func canPin() bool { return false }

func startOn(_ int, start func() error) error { return start() }
