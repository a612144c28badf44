# The policies of infra/iam, with the names filled in.
locals {
  names = {
    BUCKET  = aws_s3_bucket.this.id
    REGION  = data.aws_region.current.name
    ACCOUNT = data.aws_caller_identity.current.account_id
    QUEUE   = aws_sqs_queue.drops.name
  }
  file_drop_policy = replace(replace(replace(replace(file("${path.module}/../iam/file-drop.json"),
  "BUCKET", local.names.BUCKET), "REGION", local.names.REGION), "ACCOUNT", local.names.ACCOUNT), "QUEUE", local.names.QUEUE)
  corpus_policy = replace(file("${path.module}/../iam/corpus.json"), "BUCKET", local.names.BUCKET)
  oidc_issuer   = var.oidc_provider_arn == null ? "" : split("oidc-provider/", var.oidc_provider_arn)[1]
}

data "aws_iam_policy_document" "trust" {
  # Without a cluster, tasks of ECS and AWS Batch may take the role.
  dynamic "statement" {
    for_each = var.oidc_provider_arn == null ? [1] : []
    content {
      actions = ["sts:AssumeRole"]
      principals {
        type        = "Service"
        identifiers = ["ecs-tasks.amazonaws.com"]
      }
      condition {
        test     = "StringEquals"
        variable = "aws:SourceAccount"
        values   = [data.aws_caller_identity.current.account_id]
      }
    }
  }

  dynamic "statement" {
    for_each = var.oidc_provider_arn == null ? [] : [1]
    content {
      actions = ["sts:AssumeRoleWithWebIdentity"]
      principals {
        type        = "Federated"
        identifiers = [var.oidc_provider_arn]
      }
      condition {
        test     = "StringEquals"
        variable = "${local.oidc_issuer}:sub"
        values   = ["system:serviceaccount:${var.service_account}"]
      }
      condition {
        test     = "StringEquals"
        variable = "${local.oidc_issuer}:aud"
        values   = ["sts.amazonaws.com"]
      }
    }
  }
}

resource "aws_iam_role" "worker" {
  name               = "${var.name}-worker"
  assume_role_policy = data.aws_iam_policy_document.trust.json
  tags               = var.tags
}

resource "aws_iam_role_policy" "file_drop" {
  name   = "file-drop"
  role   = aws_iam_role.worker.id
  policy = local.file_drop_policy
}

resource "aws_iam_role_policy" "corpus" {
  count  = var.batch == null ? 0 : 1
  name   = "corpus"
  role   = aws_iam_role.worker.id
  policy = local.corpus_policy
}

resource "aws_iam_role_policy" "kms" {
  count = var.kms_key_arn == null ? 0 : 1
  name  = "kms"
  role  = aws_iam_role.worker.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["kms:Decrypt", "kms:GenerateDataKey"]
      Resource = var.kms_key_arn
    }]
  })
}
