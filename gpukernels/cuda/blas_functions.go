package cuda

import "unsafe"

// Handles of cuBLASLt. They are addresses in the library's memory, which Go never looks into.
type (
	blasHandle        uintptr
	descriptionHandle uintptr // of a product
	layoutHandle      uintptr // of a matrix
	preferenceHandle  uintptr // for algorithms
	blasStatus        int32
)

// algorithmBits is cublasLtMatmulAlgo_t: an algorithm with its configuration, which only the library understands.
type algorithmBits [8]uint64

// heuristicResult is cublasLtMatmulHeuristicResult_t.
type heuristicResult struct {
	algorithm algorithmBits
	workspace uint64 // bytes that it needs
	state     blasStatus
	waves     float32
	_         [4]int32
}

// blasFunctions are the functions of cuBLASLt that are used here, as functions are those of the driver: the library exports each as
// "cublasLt" and the field's name. A test compares the prototypes with cublasLt.h and with the Go types.
type blasFunctions struct {
	// cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle)
	Create func(handle *blasHandle) blasStatus
	// cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle)
	Destroy func(handle blasHandle) blasStatus
	// size_t cublasLtGetVersion(void)
	GetVersion func() uint64
	// const char *cublasLtGetStatusName(cublasStatus_t status)
	GetStatusName func(code blasStatus) *byte

	// cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc, cublasComputeType_t computeType, cudaDataType_t scaleType)
	MatmulDescCreate func(description *descriptionHandle, arithmetic, scale int32) blasStatus
	// cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc)
	MatmulDescDestroy func(description descriptionHandle) blasStatus
	// cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc, cublasLtMatmulDescAttributes_t attr, const void *buf, size_t sizeInBytes)
	MatmulDescSetAttribute func(description descriptionHandle, attribute int32, from unsafe.Pointer, bytes uint64) blasStatus

	// cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld)
	MatrixLayoutCreate func(layout *layoutHandle, stored int32, rows, columns uint64, stride int64) blasStatus
	// cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout)
	MatrixLayoutDestroy func(layout layoutHandle) blasStatus
	// cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matLayout, cublasLtMatrixLayoutAttribute_t attr, const void *buf, size_t sizeInBytes)
	MatrixLayoutSetAttribute func(layout layoutHandle, attribute int32, from unsafe.Pointer, bytes uint64) blasStatus

	// cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
	MatmulPreferenceCreate func(preference *preferenceHandle) blasStatus
	// cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
	MatmulPreferenceDestroy func(preference preferenceHandle) blasStatus
	// cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t attr, const void *buf, size_t sizeInBytes)
	MatmulPreferenceSetAttribute func(preference preferenceHandle, attribute int32, from unsafe.Pointer, bytes uint64) blasStatus

	// cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc, cublasLtMatmulPreference_t preference, int requestedAlgoCount, cublasLtMatmulHeuristicResult_t heuristicResultsArray[], int *returnAlgoCount)
	MatmulAlgoGetHeuristic func(handle blasHandle, description descriptionHandle, a, b, c, d layoutHandle, preference preferenceHandle, most int32, results *heuristicResult, count *int32) blasStatus
	// cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc, cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc, cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
	MatmulAlgoCheck func(handle blasHandle, description descriptionHandle, a, b, c, d layoutHandle, algorithm *algorithmBits, result *heuristicResult) blasStatus
	// cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t attr, void *buf, size_t sizeInBytes, size_t *sizeWritten)
	MatmulAlgoConfigGetAttribute func(algorithm *algorithmBits, attribute int32, to unsafe.Pointer, bytes uint64, written *uint64) blasStatus

	// cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc, const void *alpha, const void *A, cublasLtMatrixLayout_t Adesc, const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta, const void *C, cublasLtMatrixLayout_t Cdesc, void *D, cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspaceSizeInBytes, cudaStream_t stream)
	Matmul func(handle blasHandle, description descriptionHandle, alpha *float32, x Pointer, ofX layoutHandle, y Pointer, ofY layoutHandle, beta *float32, c Pointer, ofC layoutHandle, d Pointer, ofD layoutHandle, algorithm *algorithmBits, workspace Pointer, bytes uint64, stream streamHandle) blasStatus
}
