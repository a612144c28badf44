// Package cputime tells how much processor time the process has used. Beside it the time on the clock tells how much of a
// measurement went to other processes.
package cputime
