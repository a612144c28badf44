//go:build !unix

package main

import "time"

// processTime is not known here.
func processTime() time.Duration { return 0 }

// residentBytes is not known here.
func residentBytes() int64 { return 0 }
