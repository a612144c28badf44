// Package paritytest holds tests alone: those that compare whole translations with the outputs that Marian wrote for the same
// models and options, and so need the engine, its device and several other packages at once.
package paritytest
