package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// What callers handle.
var (
	// ErrNoBLAS means that there is no library cuBLASLt, or that it does not run here.
	ErrNoBLAS = errors.New("cuBLASLt cannot be used")
	// ErrRefused means that cuBLASLt does not compute a product, or not by this algorithm. Nothing else has happened.
	ErrRefused = errors.New("cuBLASLt does not compute this product")
	// ErrBLASOutdated means that the library is older than what the bindings were written for.
	ErrBLASOutdated = errors.New("cuBLASLt is too old")
)

// A BLASVersion is one of cuBLASLt: 120205 is 12.2.5.
type BLASVersion int

// MinimumBLASVersion is the first version of the library that is used: older ones belong to older drivers.
const MinimumBLASVersion BLASVersion = 120000

func (v BLASVersion) String() string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// A BLAS is NVIDIA's library cuBLASLt on the device of a context. Several goroutines that have bound the context may use it.
type BLAS struct {
	call    *blasFunctions
	handle  blasHandle
	library string
	version BLASVersion
}

// blasLibraries are the names of the library that a driver can run, the newest first.
func (v Version) blasLibraries() []string {
	all := []string{"libcublasLt.so.12"}
	if v >= 13000 {
		all = slices.Insert(all, 0, "libcublasLt.so.13")
	}
	return all
}

// OpenBLAS opens cuBLASLt on the context's device: the library of a name, or else the one that the driver can run. The context must be
// bound. Where there is none, the error is ErrNoBLAS, and ErrBLASOutdated where it is too old.
func (c *Context) OpenBLAS(library string) (*BLAS, error) {
	names := []string{library}
	if library == "" {
		names = c.driver.version.blasLibraries()
	}
	var failed []error
	for _, name := range names {
		b := &BLAS{library: name}
		err := b.open()
		if err == nil {
			return b, nil
		}
		failed = append(failed, fmt.Errorf("open %s: %w", name, err))
	}
	return nil, errors.Join(failed...)
}

func (b *BLAS) open() (err error) {
	if b.call, err = loadBLAS(b.library); err != nil {
		return err
	}
	if b.version = BLASVersion(b.call.GetVersion()); b.version < MinimumBLASVersion {
		return fmt.Errorf("%w: it is version %v, and %v or a later one is needed", ErrBLASOutdated, b.version, MinimumBLASVersion)
	}
	if err := b.check("cublasLtCreate", b.call.Create(&b.handle)); err != nil {
		return fmt.Errorf("%w: version %v: %w", ErrNoBLAS, b.version, err)
	}
	return nil
}

// Close gives back what the library holds. All products must be closed before.
func (b *BLAS) Close() error { return b.check("cublasLtDestroy", b.call.Destroy(b.handle)) }

// Version returns the version of the library.
func (b *BLAS) Version() BLASVersion { return b.version }

func (b *BLAS) String() string { return fmt.Sprintf("cuBLASLt %v (%s)", b.version, b.library) }

// Codes of the enumeration cublasStatus_t, with their names in cublas_api.h, which a test compares.
const (
	blasSuccess        blasStatus = 0  // CUBLAS_STATUS_SUCCESS
	blasNotInitialised blasStatus = 1  // CUBLAS_STATUS_NOT_INITIALIZED
	blasAllocFailed    blasStatus = 3  // CUBLAS_STATUS_ALLOC_FAILED
	blasInvalidValue   blasStatus = 7  // CUBLAS_STATUS_INVALID_VALUE
	blasNotSupported   blasStatus = 15 // CUBLAS_STATUS_NOT_SUPPORTED
)

// A BLASError is what a call of cuBLASLt answered.
type BLASError struct {
	Call string // the function of the library: cublasLtMatmul
	Code int    // of the enumeration cublasStatus_t
	Name string // CUBLAS_STATUS_EXECUTION_FAILED
}

func (e *BLASError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code) }

// Is tells errors.Is which of the package's errors this is one of.
func (e *BLASError) Is(target error) bool {
	switch blasStatus(e.Code) {
	case blasAllocFailed:
		return target == ErrOutOfMemory
	case blasNotInitialised:
		return target == ErrNoBLAS
	case blasInvalidValue, blasNotSupported:
		return target == ErrRefused
	}
	return false
}

// check turns the answer of a call into an error.
func (b *BLAS) check(call string, code blasStatus) error {
	if code == blasSuccess {
		return nil
	}
	e := &BLASError{Call: call, Code: int(code), Name: "an error without a name"}
	if name := b.call.GetStatusName(code); name != nil {
		e.Name = goString(name)
	}
	return e
}

// Numbers of enumerations of cublasLt.h, cublas_api.h and library_types.h.
const (
	typeFloat32  int32 = 0  // CUDA_R_32F
	typeFloat16  int32 = 2  // CUDA_R_16F
	typeBFloat16 int32 = 14 // CUDA_R_16BF

	computeFloat32 int32 = 68 // CUBLAS_COMPUTE_32F
	transposed     int32 = 1  // CUBLAS_OP_T

	descriptionTransposeA  int32  = 3 // CUBLASLT_MATMUL_DESC_TRANSA
	descriptionTransposeB  int32  = 4 // CUBLASLT_MATMUL_DESC_TRANSB
	descriptionEpilogue    int32  = 7 // CUBLASLT_MATMUL_DESC_EPILOGUE
	descriptionBiasPointer int32  = 8 // CUBLASLT_MATMUL_DESC_BIAS_POINTER
	epilogueNothing        uint32 = 1 // CUBLASLT_EPILOGUE_DEFAULT
	epilogueReLU           uint32 = 2 // CUBLASLT_EPILOGUE_RELU
	epilogueBias           uint32 = 4 // CUBLASLT_EPILOGUE_BIAS
	epilogueReLUBias       uint32 = 6 // CUBLASLT_EPILOGUE_RELU_BIAS

	layoutColumns int32 = 3 // CUBLASLT_MATRIX_LAYOUT_COLS
	layoutStride  int32 = 4 // CUBLASLT_MATRIX_LAYOUT_LD

	preferenceWorkspace  int32  = 1 // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
	preferenceReductions int32  = 3 // CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK
	preferenceAlignmentA int32  = 5 // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES
	preferenceAlignmentB int32  = 6 // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES
	preferenceAlignmentC int32  = 7 // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES
	preferenceAlignmentD int32  = 8 // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
	noReduction          uint32 = 0 // CUBLASLT_REDUCTION_SCHEME_NONE

	configNumber    int32 = 0 // CUBLASLT_ALGO_CONFIG_ID
	configTile      int32 = 1 // CUBLASLT_ALGO_CONFIG_TILE_ID
	configSplits    int32 = 2 // CUBLASLT_ALGO_CONFIG_SPLITK_NUM
	configReduction int32 = 3 // CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME
	configSwizzling int32 = 4 // CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING
	configCustom    int32 = 5 // CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION
	configStages    int32 = 6 // CUBLASLT_ALGO_CONFIG_STAGES_ID
	configInner     int32 = 7 // CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID
	configCluster   int32 = 8 // CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID
)

// BLASAlignment is what the addresses of all operands are multiples of, in bytes.
const BLASAlignment = 16

// A BLASShape is what products have in common that one BLASProduct computes. x has rows of k elements.
type BLASShape struct {
	N, K      int
	BFloat16  bool // and not float16
	Unbiased  bool
	Rectified bool

	// Of training: the operands are stored in one way, whatever is computed with them.
	StraightWeights bool // k×n, and not n×k
	TransposedX     bool // sums are over the rows of x, and of n wide weights: results are k×n
	Float32         bool // so are results, the residual and the bias
}

// A BLASProduct is result[m,n] = f(Σ x[m,k]·weights[n,k] + residual[m,n] + bias[n]), where f is max(0, ·) if rectified, and sums are float32; or
// what else its shape says. It may be run from several goroutines.
type BLASProduct struct {
	blas        *BLAS
	shape       BLASShape
	description descriptionHandle

	// As the library sees it, columns come first: n×m are the transposed weights, k×n, times x, k×m.
	weights, x, residual, result layoutHandle

	lock    sync.Mutex
	set     dimensions // what the layouts say
	bias    Pointer    // what the description says
	factors [2]float32 // 0 and 1, which the library reads
}

// dimensions are what differs between products of one shape.
type dimensions struct{ rows, x, weights, residual, result int } // of x; the others are strides

// Product prepares products of a shape. bias is that of the columns, n numbers as the result is stored, unless products say another one.
func (b *BLAS) Product(shape BLASShape, bias Pointer) (*BLASProduct, error) {
	p := &BLASProduct{blas: b, shape: shape, factors: [2]float32{0, 1}}
	if err := p.open(bias); err != nil {
		p.Close()
		return nil, fmt.Errorf("%v: %w", shape, err)
	}
	return p, nil
}

func (s BLASShape) String() string {
	if s.TransposedX {
		return fmt.Sprintf("a product over rows of %d and %d", s.K, s.N)
	}
	return fmt.Sprintf("a product with %d×%d weights", s.N, s.K)
}

// epilogue is what follows the sum.
func (s BLASShape) epilogue() uint32 {
	switch {
	case s.Unbiased && s.Rectified:
		return epilogueReLU
	case s.Unbiased:
		return epilogueNothing
	case s.Rectified:
		return epilogueReLUBias
	}
	return epilogueBias
}

// weightsStride is that of weights without gaps.
func (s BLASShape) weightsStride() int {
	if s.StraightWeights || s.TransposedX {
		return s.N
	}
	return s.K
}

// plain are the dimensions of matrices without gaps.
func (s BLASShape) plain(rows int) dimensions {
	return dimensions{rows, s.K, s.weightsStride(), s.N, s.N}
}

func (p *BLASProduct) open(bias Pointer) error {
	call, s := p.blas.call, p.shape
	if err := p.blas.check("cublasLtMatmulDescCreate", call.MatmulDescCreate(&p.description, computeFloat32, typeFloat32)); err != nil {
		return err
	}
	epilogue, transpose := s.epilogue(), transposed
	if err := p.describeProduct(descriptionEpilogue, unsafe.Pointer(&epilogue), 4); err != nil {
		return err
	}
	if s.TransposedX {
		if err := p.describeProduct(descriptionTransposeB, unsafe.Pointer(&transpose), 4); err != nil {
			return err
		}
	} else if !s.StraightWeights {
		if err := p.describeProduct(descriptionTransposeA, unsafe.Pointer(&transpose), 4); err != nil {
			return err
		}
	}
	if err := p.describeBias(bias); err != nil {
		return err
	}
	return p.openLayouts()
}

// describeProduct sets an attribute of the description.
func (p *BLASProduct) describeProduct(attribute int32, from unsafe.Pointer, bytes uint64) error {
	return p.blas.check("cublasLtMatmulDescSetAttribute", p.blas.call.MatmulDescSetAttribute(p.description, attribute, from, bytes))
}

// describeBias says where the bias is, if it is anywhere.
func (p *BLASProduct) describeBias(bias Pointer) error {
	if bias == 0 || bias == p.bias {
		return nil
	}
	p.bias = 0 // whatever the description says, if that fails
	if err := p.describeProduct(descriptionBiasPointer, unsafe.Pointer(&bias), 8); err != nil {
		return err
	}
	p.bias = bias
	return nil
}

// openLayouts makes the layouts of matrices without gaps, of one row.
func (p *BLASProduct) openLayouts() error {
	s := p.shape
	stored, ofResult := typeFloat16, typeFloat32
	if s.BFloat16 {
		stored = typeBFloat16
	}
	if !s.Float32 {
		ofResult = stored
	}
	p.set = s.plain(1)
	rows, inner := s.N, s.K // of the weights, as the library sees them
	switch {
	case s.TransposedX:
		inner = 1
	case !s.StraightWeights:
		rows, inner = s.K, s.N
	}
	results := 1
	if s.TransposedX {
		results = s.K
	}
	for _, l := range []struct {
		layout        *layoutHandle
		of            int32
		rows, columns int
	}{{&p.weights, stored, rows, inner}, {&p.x, stored, s.K, 1}, {&p.residual, ofResult, s.N, results}, {&p.result, ofResult, s.N, results}} {
		code := p.blas.call.MatrixLayoutCreate(l.layout, l.of, uint64(l.rows), uint64(l.columns), int64(l.rows))
		if err := p.blas.check("cublasLtMatrixLayoutCreate", code); err != nil {
			return err
		}
	}
	return nil
}

// Close gives back what the library holds for the product, when nobody runs it.
func (p *BLASProduct) Close() error {
	var failed []error
	for _, layout := range []layoutHandle{p.weights, p.x, p.residual, p.result} {
		if layout != 0 {
			failed = append(failed, p.blas.check("cublasLtMatrixLayoutDestroy", p.blas.call.MatrixLayoutDestroy(layout)))
		}
	}
	if p.description != 0 {
		failed = append(failed, p.blas.check("cublasLtMatmulDescDestroy", p.blas.call.MatmulDescDestroy(p.description)))
	}
	return errors.Join(failed...)
}

// describe lets the layouts say what a product is like. The lock must be held.
func (p *BLASProduct) describe(d dimensions) error {
	if d.residual == 0 { // there is none, but a layout must be one
		d.residual = p.shape.N
	}
	was := p.set
	p.set = dimensions{}
	ofRows := []layoutHandle{p.x, p.residual, p.result}
	if p.shape.TransposedX {
		ofRows = []layoutHandle{p.x, p.weights}
	}
	for _, layout := range ofRows {
		if err := p.describeLayout(layout, layoutColumns, was.rows, d.rows); err != nil {
			return err
		}
	}
	for _, stride := range []struct {
		layout  layoutHandle
		was, is int
	}{{p.x, was.x, d.x}, {p.weights, was.weights, d.weights}, {p.residual, was.residual, d.residual}, {p.result, was.result, d.result}} {
		if err := p.describeLayout(stride.layout, layoutStride, stride.was, stride.is); err != nil {
			return err
		}
	}
	p.set = d
	return nil
}

// describeLayout changes an attribute of a layout, if it is another one.
func (p *BLASProduct) describeLayout(layout layoutHandle, attribute int32, was, is int) error {
	if was == is {
		return nil
	}
	value := int64(is)
	return p.blas.check("cublasLtMatrixLayoutSetAttribute", p.blas.call.MatrixLayoutSetAttribute(layout, attribute, unsafe.Pointer(&value), 8))
}

// A BLASAlgorithm is a way of the library's to compute a product.
type BLASAlgorithm struct {
	Workspace int // bytes of the device's memory that it needs
	bits      algorithmBits
	config    [configCluster + 1]uint32
}

// String names the algorithm as the library configures it. Two with the same name are the same, in one version on one device.
func (a *BLASAlgorithm) String() string {
	var words []string
	for attribute, name := range []string{"number", "tile", "splits", "reduction", "swizzling", "custom", "stages", "inner", "cluster"} {
		words = append(words, fmt.Sprintf("%s %d", name, a.config[attribute]))
	}
	return strings.Join(words, ", ")
}

// Divided says whether the algorithm adds sums of parts of a row, so that the order of a sum is not that of k.
func (a *BLASAlgorithm) Divided() bool {
	return a.config[configSplits] > 1 || a.config[configReduction] != noReduction
}

// configBytes are the sizes of the attributes of a configuration.
var configBytes = [configCluster + 1]uint64{configNumber: 4, configTile: 4, configSplits: 4, configReduction: 4, configSwizzling: 4, configCustom: 4,
	configStages: 4, configInner: 2, configCluster: 2}

// Algorithms asks for algorithms for a number of rows, the one first that the library holds for the fastest: some, at most, that need no more
// than so many bytes of workspace. There may be none. Those that divide sums are not asked for.
func (p *BLASProduct) Algorithms(rows, most, workspace int) ([]BLASAlgorithm, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if err := p.describe(p.shape.plain(rows)); err != nil {
		return nil, err
	}
	preference, err := p.blas.preference(workspace)
	if err != nil {
		return nil, err
	}
	defer p.blas.call.MatmulPreferenceDestroy(preference)
	results, count := make([]heuristicResult, most), int32(0)
	code := p.blas.call.MatmulAlgoGetHeuristic(p.blas.handle, p.description, p.weights, p.x, p.residual, p.result, preference, int32(most),
		&results[0], &count)
	if code == blasNotSupported {
		return nil, nil
	}
	if err := p.blas.check("cublasLtMatmulAlgoGetHeuristic", code); err != nil {
		return nil, err
	}
	var all []BLASAlgorithm
	for _, r := range results[:min(max(int(count), 0), most)] {
		if r.state != blasSuccess || r.workspace > uint64(workspace) {
			continue
		}
		a := BLASAlgorithm{Workspace: int(r.workspace), bits: r.algorithm}
		if err := p.blas.readConfig(&a); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// readConfig fills in how the algorithm is configured. The numbers are little-endian, of two or four bytes.
func (b *BLAS) readConfig(a *BLASAlgorithm) error {
	for attribute, bytes := range configBytes {
		var written uint64
		code := b.call.MatmulAlgoConfigGetAttribute(&a.bits, int32(attribute), unsafe.Pointer(&a.config[attribute]), bytes, &written)
		if err := b.check("cublasLtMatmulAlgoConfigGetAttribute", code); err != nil {
			return err
		}
	}
	return nil
}

// preference says what algorithms may be.
func (b *BLAS) preference(workspace int) (preferenceHandle, error) {
	var preference preferenceHandle
	if err := b.check("cublasLtMatmulPreferenceCreate", b.call.MatmulPreferenceCreate(&preference)); err != nil {
		return 0, err
	}
	bytes, reductions, alignment := uint64(workspace), noReduction, uint32(BLASAlignment)
	err := b.prefer(preference, preferenceWorkspace, unsafe.Pointer(&bytes), 8)
	err = cmp.Or(err, b.prefer(preference, preferenceReductions, unsafe.Pointer(&reductions), 4))
	for _, attribute := range []int32{preferenceAlignmentA, preferenceAlignmentB, preferenceAlignmentC, preferenceAlignmentD} {
		err = cmp.Or(err, b.prefer(preference, attribute, unsafe.Pointer(&alignment), 4))
	}
	if err != nil {
		b.call.MatmulPreferenceDestroy(preference)
	}
	return preference, err
}

func (b *BLAS) prefer(preference preferenceHandle, attribute int32, from unsafe.Pointer, bytes uint64) error {
	return b.check("cublasLtMatmulPreferenceSetAttribute", b.call.MatmulPreferenceSetAttribute(preference, attribute, from, bytes))
}

// Takes says whether an algorithm can compute the product for a number of rows with the workspace that it has.
func (p *BLASProduct) Takes(a *BLASAlgorithm, rows int) (bool, error) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if err := p.describe(p.shape.plain(rows)); err != nil {
		return false, err
	}
	var result heuristicResult
	code := p.blas.call.MatmulAlgoCheck(p.blas.handle, p.description, p.weights, p.x, p.residual, p.result, &a.bits, &result)
	return code == blasSuccess && result.workspace <= uint64(a.Workspace), nil
}

// BLASOperands are those of a product. Addresses are multiples of BLASAlignment.
type BLASOperands struct {
	X, Weights, Residual, Result          Pointer // Residual may be 0, and may be Result
	Bias                                  Pointer // 0 for the one that was there
	Rows                                  int     // of X
	XStride, ResidualStride, ResultStride int     // in elements
	WeightsStride                         int     // 0 for no gaps
	Workspace                             Pointer
}

// Run puts the product into the stream. The algorithm uses the workspace until the product is done.
func (p *BLASProduct) Run(s *Stream, a *BLASAlgorithm, o BLASOperands) error {
	p.lock.Lock()
	defer p.lock.Unlock()
	residual, ofResidual, factor := o.Residual, p.residual, &p.factors[1]
	if residual == 0 {
		residual, ofResidual, factor, o.ResidualStride = o.Result, p.result, &p.factors[0], 0
	}
	if err := p.describe(dimensions{o.Rows, o.XStride, cmp.Or(o.WeightsStride, p.shape.weightsStride()), o.ResidualStride, o.ResultStride}); err != nil {
		return err
	}
	if err := p.describeBias(o.Bias); err != nil {
		return err
	}
	code := p.blas.call.Matmul(p.blas.handle, p.description, &p.factors[1], o.Weights, p.weights, o.X, p.x, factor, residual, ofResidual, o.Result,
		p.result, &a.bits, o.Workspace, uint64(a.Workspace), s.handle)
	if err := p.blas.check("cublasLtMatmul", code); err != nil {
		return fmt.Errorf("%v, %d rows: %w", p.shape, o.Rows, err)
	}
	return nil
}
