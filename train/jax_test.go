package train

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-mt/sluice/internal/sharedtest"
	"github.com/sluice-mt/sluice/train/autodiff"
	"github.com/sluice-mt/sluice/train/network"
	"github.com/sluice-mt/sluice/train/optimiser"
	"github.com/sluice-mt/sluice/translator/marian"
	"github.com/sluice-mt/sluice/translator/model"
)

// A jaxTask is what testdata/student.py reads.
type jaxTask struct {
	Type       string          `json:"type"`
	Dim        int             `json:"dim"`
	Heads      int             `json:"heads"`
	EncDepth   int             `json:"enc-depth"`
	DecDepth   int             `json:"dec-depth"`
	Activation string          `json:"activation"`
	Recurrent  bool            `json:"recurrent"`
	Smoothing  float64         `json:"smoothing"`
	Adam       []float64       `json:"adam"`
	Clip       float64         `json:"clip"`
	Rates      []float64       `json:"rates"`
	Batches    [][][2]sentence `json:"batches"`
	Double     bool            `json:"double"`  // precision
	Threads    int             `json:"threads"` // of student_torch.py

	limit time.Duration // for the whole run; 0 is five minutes
}

type sentence []int32

// python returns an interpreter that has JAX.
func python(t testing.TB) string {
	t.Helper()
	program := sharedtest.Program(t, "python3")
	if err := exec.CommandContext(t.Context(), program, "-c", "import jax").Run(); err != nil {
		if os.Getenv("SLUICE_REQUIRE_TOOLS") != "" {
			t.Fatal("python3 has no module jax, and SLUICE_REQUIRE_TOOLS is set")
		}
		t.Skip("needs the Python module jax")
	}
	return program
}

// TestJAX compares with an implementation in JAX: the gradients of one step, and the losses of fifty, of a student with SSRU,
// of a teacher with self-attention, and of a recurrent model.
func TestJAX(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles two models with JAX")
	}
	program := python(t)
	student := defaultArchitecture()
	student.DimEmb, student.Heads, student.EncDepth, student.DecDepth, student.DimFFN = 64, 8, 6, 2, 192
	student.FFNActivation, student.Autoregression, student.DecCell, student.TiedEmbeddingsAll = "relu", "rnn", "ssru", true
	teacher := student
	teacher.Autoregression, teacher.EncDepth, teacher.DecDepth, teacher.FFNActivation = "self-attention", 3, 3, "swish"
	recurrent := teacher
	recurrent.Type, recurrent.DecCell, recurrent.DimRNN, recurrent.EncDepth, recurrent.DecDepth = "s2s", "gru", 48, 1, 2
	recurrent.DecBaseDepth, recurrent.LayerNormalization, recurrent.Skip = 3, true, true
	for name, a := range map[string]model.Description{"student": student, "teacher": teacher, "recurrent": recurrent} {
		t.Run(name, func(t *testing.T) { compareWithJAX(t, program, a) })
	}
}

func compareWithJAX(t *testing.T, program string, a model.Description) {
	folder := t.TempDir()
	const vocabulary, steps = 300, 50
	description, err := describe(a, []int{vocabulary, vocabulary})
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.New(description)
	if err != nil {
		t.Fatal(err)
	}
	n, err := network.New(m)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, n.Size())
	n.Initialise(values, 1)
	if err := marian.WriteNPZ(filepath.Join(folder, "model.npz"), n.File(values, description)); err != nil {
		t.Fatal(err)
	}
	settings := optimiser.Config{Beta1: 0.9, Beta2: 0.98, Epsilon: 1e-9, LearnRate: 1e-3, WarmUp: 20, InvSqrt: 30, ClipNorm: 1}
	task := jaxTask{
		Type: a.Type, Dim: a.DimEmb, Heads: a.Heads, EncDepth: a.EncDepth, DecDepth: a.DecDepth, Activation: a.FFNActivation,
		Recurrent: a.Autoregression == "rnn", Smoothing: 0.1, Adam: []float64{settings.Beta1, settings.Beta2, settings.Epsilon},
		Clip: settings.ClipNorm, Batches: randomPairs(vocabulary), Double: true,
	}
	for step := range steps {
		task.Rates = append(task.Rates, settings.Rate(step+1))
	}
	runJAX(t, program, folder, task, "XLA_FLAGS=--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
	gradients, losses := openGradients(t, folder), readNumbers(t, filepath.Join(folder, "losses.json"))

	replica := network.NewReplica(n, autodiff.Device[float32](new(autodiff.CPU)), values)
	o, largest := optimiser.New(settings, values), 0.0
	for step := range steps {
		var batch network.Batch
		for _, pair := range task.Batches[step%len(task.Batches)] {
			batch.Source.Add(pair[0])
			batch.Target.Add(pair[1])
		}
		loss := replica.Train(&batch, network.Options{LabelSmoothing: task.Smoothing}, 1)
		got := loss.CrossEntropy / float64(loss.Words)
		largest = max(largest, math.Abs(got-losses[step]))
		if math.Abs(got-losses[step]) > 1e-3 {
			t.Errorf("step %d: loss %v, JAX has %v", step+1, got, losses[step])
		}
		scale := 1 / float64(loss.Words)
		if step == 0 {
			compareGradients(t, n, replica.Gradient, scale, gradients)
		}
		if _, err := o.Step([][]float32{replica.Gradient}, scale); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("the loss went from %.4f to %.4f, with differences of at most %.1e", losses[0], losses[steps-1], largest)
}

func randomPairs(vocabulary int32) [][][2]sentence {
	random := rand.New(rand.NewPCG(6, 6))
	draw := func() sentence {
		s := make(sentence, 2+random.IntN(20))
		for i := range s[:len(s)-1] {
			s[i] = 1 + random.Int32N(vocabulary-1)
		}
		return s
	}
	batches := make([][][2]sentence, 4)
	for b := range batches {
		for range 8 {
			batches[b] = append(batches[b], [2]sentence{draw(), draw()})
		}
	}
	return batches
}

// runJAX runs the script on a task. The environment may have more variables.
func runJAX(t testing.TB, program, folder string, task jaxTask, environment ...string) {
	t.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "task.json"), text, 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(task.limit, 5*time.Minute))
	defer cancel()
	command := exec.CommandContext(ctx, program, filepath.Join("testdata", "student.py"), folder)
	command.Env = append(os.Environ(), environment...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}

func openGradients(t *testing.T, folder string) *marian.File {
	t.Helper()
	gradients, err := marian.Open(filepath.Join(folder, "gradients.npz"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gradients.Close(); err != nil {
			t.Error(err)
		}
	})
	return gradients
}

func readNumbers(t testing.TB, path string) []float64 {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []float64
	if err := json.Unmarshal(text, &numbers); err != nil {
		t.Fatal(err)
	}
	return numbers
}

// compareGradients wants every tensor within 1e-4, relative to its norm. Biases of keys have no gradient but for rounding:
// softmax does not see what is added to all scores.
func compareGradients(t *testing.T, n *network.Network, gradient []float32, scale float64, want *marian.File) {
	t.Helper()
	largest := 0.0
	for i := range n.Parameters {
		p := &n.Parameters[i]
		tensor := want.Tensor(p.Name)
		if tensor == nil {
			t.Errorf("JAX has no gradient of %s", p.Name)
			continue
		}
		exact, err := tensor.Float32()
		if err != nil {
			t.Fatal(err)
		}
		var difference, size float64
		for j, v := range network.Values(p, gradient) {
			d := float64(v)*scale - float64(exact[j])
			difference += d * d
			size += float64(exact[j]) * float64(exact[j])
		}
		if size < 1e-16 {
			if difference > 1e-12 {
				t.Errorf("%s: a gradient of %v where JAX has none", p.Name, math.Sqrt(difference))
			}
			continue
		}
		relative := math.Sqrt(difference / size)
		largest = max(largest, relative)
		if relative > 1e-4 {
			t.Errorf("%s: the gradient differs by %v", p.Name, relative)
		}
	}
	t.Logf("the largest relative difference of a gradient is %.1e", largest)
}
