//go:build linux && (amd64 || arm64) && !nogpu

package gpukernels

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-mt/sluice/gpukernels/cuda"
	"github.com/sluice-mt/sluice/train/autodiff"
)

// The numbers of model.Activation, which are those of the kernels, and the functions of the processor.
var activations = map[int]autodiff.Function{1: autodiff.ReLU, 2: autodiff.Swish, 3: autodiff.GELU, 4: autodiff.GELUSigmoid, 5: autodiff.Sigmoid,
	int(Tanh): autodiff.Tanh}

// Rows with gaps and without: what is between groups stays zero, for sigmoid as well.
func TestTrainingActivate(t *testing.T) {
	r := newTrainingRig(t)
	for kind, f := range activations {
		for _, c := range []struct {
			of     Spacing
			groups int
		}{{Spacing{8, 8}, 1}, {Spacing{8, 8}, 129}, {Spacing{13, 16}, 20}, {Spacing{3, 16}, 3}} {
			r.tape.Reset(true, dropoutSeed)
			n := c.groups * c.of.Stored
			x, xAt := r.spacedMatrix(c.of, 1, c.groups*c.of.Width)
			y := r.tape.Apply(x, f)
			yAt, dx := alloc[number](r.rig, n), alloc[number](r.rig, n)
			must(t, r.kernels.Activate(r.stream, yAt, xAt, n, c.of, kind))
			what := fmt.Sprintf("activation %d of %v: ", kind, c.of)
			r.nearSpaced(what+"y", c.of, yAt, y.Value, 1e-4)
			g := r.halves(len(y.Grad), 1)
			copy(y.Grad, doubles(g))
			r.tape.Backward()
			must(t, r.kernels.ActivateBackward(r.stream, dx, in(r.rig, spacedOut(c.of, g)), xAt, n, kind))
			r.nearSpaced(what+"dx", c.of, dx, x.Grad, 1e-4)
		}
	}
}

// Gated sums with two gates, and with one, as in highway connections.
func TestTrainingGatedSum(t *testing.T) {
	r := newTrainingRig(t)
	for _, n := range []int{8, 264, 1032} {
		for _, highway := range []bool{false, true} {
			r.tape.Reset(true, dropoutSeed)
			a, aAt := r.matrix(1, n, 4)
			u, uAt := r.matrix(1, n, 2)
			b, bAt := r.matrix(1, n, 4)
			v, vAt := r.matrix(1, n, 2)
			g, to := GatedSum{A: aAt, U: uAt, B: bAt, V: vAt, N: n}, GatedSum{A: alloc[number](r.rig, n), U: alloc[number](r.rig, n), V: alloc[number](r.rig, n)}
			var y *autodiff.Matrix[float64]
			if highway {
				y, g.B = r.tape.Highway(a, u, v), 0
			} else {
				y, to.B = r.tape.GatedSum(a, u, b, v), alloc[number](r.rig, n)
			}
			yAt := alloc[number](r.rig, n)
			must(t, r.kernels.GatedSum(r.stream, yAt, g))
			what := fmt.Sprintf("highway %v, %d elements: ", highway, n)
			r.near(what+"y", yAt, y.Value, 1e-4)
			must(t, r.kernels.GatedSumBackward(r.stream, to, r.backward(y), g))
			r.near(what+"da", to.A, a.Grad, 1e-4)
			r.near(what+"du", to.U, u.Grad, 1e-4)
			r.near(what+"dv", to.V, v.Grad, 1e-4)
			if !highway {
				r.near(what+"db", to.B, b.Grad, 1e-4)
			}
		}
	}
	if err := r.kernels.GatedSumBackward(r.stream, GatedSum{}, 0, GatedSum{N: 12}); err == nil {
		t.Error("12 elements were taken")
	}
}

// eachWidth calls test with three sentences of 13 pieces in all, with few columns and more, and where a grid has no more than two rows.
func (r *trainingRig) eachWidth(test func(segments autodiff.Segments, c Columns)) {
	segments, starts := autodiff.Segments{0, 5, 6, 13}, in(r.rig, []int32{0, 5, 6, 13})
	for _, n := range []int{8, 136} {
		for _, r.kernels.most = range []int{mostGridRows, 2} {
			r.tape.Reset(true, dropoutSeed)
			test(segments, Columns{Starts: starts, Sentences: 3, Columns: n})
		}
	}
}

func TestTrainingMean(t *testing.T) {
	r := newTrainingRig(t)
	r.eachWidth(func(segments autodiff.Segments, c Columns) {
		n := c.Columns
		x, xAt := r.matrix(13, n, 2)
		y := r.tape.RunningMean(x, segments)
		yAt, dx := alloc[number](r.rig, 13*n), alloc[number](r.rig, 13*n)
		must(t, r.kernels.Mean(r.stream, yAt, xAt, c))
		r.near("means", yAt, y.Value, 1e-4)
		must(t, r.kernels.MeanBackward(r.stream, dx, r.backward(y), c))
		r.near("dx of means", dx, x.Grad, 1e-4)
	})
}

func TestTrainingSRU(t *testing.T) {
	r := newTrainingRig(t)
	r.eachWidth(func(segments autodiff.Segments, c Columns) {
		n := c.Columns
		w, wAt := r.matrix(13, n, 2)
		f, fAt := r.matrix(13, n, 4)
		g, gAt := r.matrix(13, n, 4)
		x, xAt := r.matrix(13, n, 2)
		h := r.tape.SRU(f, g, w, x, segments)
		units, hAt, states := SRU{wAt, fAt, gAt, xAt}, alloc[number](r.rig, 13*n), alloc[float32](r.rig, 13*n)
		must(t, r.kernels.SRU(r.stream, hAt, states, units, c))
		r.near("units", hAt, h.Value, 1e-4)
		var to SRU
		for _, place := range []*cuda.Pointer{&to.W, &to.F, &to.R, &to.X} {
			*place = alloc[number](r.rig, 13*n)
		}
		must(t, r.kernels.SRUBackward(r.stream, to, r.backward(h), states, units, c))
		r.near("dw", to.W, w.Grad, 1e-4)
		r.near("df", to.F, f.Grad, 1e-4)
		r.near("dr", to.R, g.Grad, 1e-4)
		r.near("dx", to.X, x.Grad, 1e-4)
	})
}

// An alignment guides the first head of an attention by either cost, over more keys than a warp takes at once.
func TestTrainingGuide(t *testing.T) {
	r := newTrainingRig(t)
	for i, c := range []struct {
		cost  autodiff.AlignmentCost
		width int
	}{{autodiff.AlignmentCE, 32}, {autodiff.AlignmentMSE, 32}, {autodiff.AlignmentCE, 2 * 136}} {
		const heads, weight = 2, 0.7
		cost, width := c.cost, c.width
		r.tape.Reset(true, dropoutSeed)
		queries, ofQueries := r.sentences(3, 1, 34)
		keys, ofKeys := r.sentences(4, 35, 2)
		q, qAt := r.matrix(queries.Rows(), width, 1)
		k, kAt := r.matrix(keys.Rows(), width, 1)
		v, vAt := r.matrix(keys.Rows(), width, 1)
		y, record := r.tape.Attend(q, k, v, queries, keys, autodiff.AttentionOptions{Heads: heads, Dropout: 0.2})
		points := []autodiff.AlignmentPoint{{Sentence: 0, Query: 0, Key: 3}, {Sentence: 0, Query: 2, Key: 0},
			{Sentence: 0, Query: 2, Key: 1}, {Sentence: 1, Query: 0, Key: 33}, {Sentence: 2, Query: 33, Key: 1}}
		want := r.tape.AlignmentLoss(record, points, cost, weight)
		targets := make([]float32, 3*4+1*35+34*2)
		for at, target := range map[int]float32{3: 1, 8: 0.5, 9: 0.5, 12 + 33: 1, 12 + 35 + 33*2 + 1: 1} {
			if targets[at] = target; cost == autodiff.AlignmentMSE {
				targets[at] = 1
			}
		}
		a := TrainingAttention{Q: qAt, K: kAt, V: vAt, Out: alloc[number](r.rig, len(y.Value)), LogSums: alloc[float32](r.rig, q.Rows*heads),
			Queries: ofQueries, Keys: ofKeys, Width: width, Heads: heads, Scale: float32(1 / math.Sqrt(float64(width/heads))), Dropout: dropoutOf(1, 0.2)}
		g := Guide{Targets: in(r.rig, targets), Places: in(r.rig, []int32{0, 12, 12 + 35}), Squared: cost == autodiff.AlignmentMSE, Weight: weight,
			Losses: alloc[float32](r.rig, q.Rows)}
		must(t, r.kernels.Attention(r.stream, a))
		dout, dq, dk, dv := r.backward(y), alloc[number](r.rig, len(q.Value)), alloc[number](r.rig, len(k.Value)), alloc[number](r.rig, len(v.Value))
		must(t, r.kernels.AttentionBackward(r.stream, dq, dk, dv, dout, alloc[float32](r.rig, q.Rows*heads), a))
		must(t, r.kernels.Guide(r.stream, dq, dk, g, a))
		have := 0.0
		for _, loss := range out[float32](r.rig, g.Losses, q.Rows) {
			have += float64(loss)
		}
		if !(math.Abs(have-want) < 1e-4*want) {
			t.Errorf("case %d: the loss is %v, want %v", i, have, want)
		}
		what := fmt.Sprintf("case %d: ", i)
		r.near(what+"dq", dq, q.Grad, 1e-3)
		r.near(what+"dk", dk, k.Grad, 1e-3)
		r.near(what+"dv", dv, v.Grad, 1e-3)
	}
	if err := r.kernels.Guide(r.stream, 0, 0, Guide{}, TrainingAttention{Width: 16, Heads: 2, Causal: true}); err == nil {
		t.Error("a causal attention was guided")
	}
}
