package marian

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
)

// Fingerprint returns a SHA-256, in hexadecimal, of what the model is: names, shapes, types and data of all tensors in order
// of their names, and the description. The container, its padding and its compression do not count, so an .npz and the
// float32 .bin that marian-conv makes of it have one fingerprint.
//
// The first call reads the whole model; further ones return what it found, also after Close. Without a call before Close the
// result is empty. Tensors must not be changed after the first call.
func (f *File) Fingerprint() string {
	if f.fingerprint != nil {
		return f.fingerprint()
	}
	return f.computeFingerprint()
}

func (f *File) computeFingerprint() string {
	if f.closed {
		return ""
	}
	h := sha256.New()
	h.Write([]byte("marian model 1\n"))
	byName := slices.SortedFunc(slices.Values(f.Tensors), func(a, b *Tensor) int { return cmp.Compare(a.Name, b.Name) })
	hashNumber(h, len(byName))
	for _, t := range byName {
		hashBytes(h, []byte(t.Name))
		hashBytes(h, []byte(t.Type.String()))
		hashNumber(h, len(t.Shape))
		for _, d := range t.Shape {
			hashNumber(h, d)
		}
		hashBytes(h, t.Data)
	}
	hashBytes(h, bytes.TrimSpace(printedAgain(f.Config)))
	if f.forgotten.Load() {
		f.Forget()
	}
	return hex.EncodeToString(h.Sum(nil))
}

// hashBytes writes the length before the bytes, so that no two models run together to the same stream.
func hashBytes(h hash.Hash, b []byte) {
	hashNumber(h, len(b))
	h.Write(b)
}

func hashNumber(h hash.Hash, n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}
