# A corpus as an array job: "aws batch submit-job --array-properties size=16 …" makes sixteen workers, and each finds its part in
# the environment that Batch gives it.
resource "aws_batch_job_definition" "corpus" {
  count                 = var.batch == null ? 0 : 1
  name                  = "${var.name}-corpus"
  type                  = "container"
  platform_capabilities = ["FARGATE"]
  propagate_tags        = true
  tags                  = var.tags

  container_properties = jsonencode({
    image            = var.batch.image
    command          = ["run", "/job.yml"]
    jobRoleArn       = aws_iam_role.worker.arn
    executionRoleArn = var.batch.execution_role_arn
    environment = [
      { name = "BUCKET", value = aws_s3_bucket.this.id },
      { name = "GOMEMLIMIT", value = "${floor(var.batch.memory_mib * 4 / 5)}MiB" },
    ]
    resourceRequirements = [
      { type = "VCPU", value = tostring(var.batch.vcpus) },
      { type = "MEMORY", value = tostring(var.batch.memory_mib) },
    ]
    readonlyRootFilesystem = true
    user                   = "65532"
  })

  # An interrupted worker (7) and one that lost its machine are tried again. A wrong job file (2) or model (4) is not.
  retry_strategy {
    attempts = 5
    evaluate_on_exit {
      action       = "EXIT"
      on_exit_code = "2"
    }
    evaluate_on_exit {
      action       = "EXIT"
      on_exit_code = "4"
    }
    evaluate_on_exit {
      action    = "RETRY"
      on_reason = "*"
    }
  }
}
