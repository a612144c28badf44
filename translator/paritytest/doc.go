// Package paritytest holds tests alone: those that compare whole translations with recorded output of Marian, and so need
// several packages of the translator at once.
package paritytest
