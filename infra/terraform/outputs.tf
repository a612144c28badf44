output "bucket" {
  description = "BUCKET of the job."
  value       = aws_s3_bucket.this.id
}

output "queue_url" {
  description = "QUEUE_URL of the job."
  value       = aws_sqs_queue.drops.url
}

output "dead_queue_url" {
  description = "Where messages go that were tried too often."
  value       = aws_sqs_queue.dead.url
}

output "role_arn" {
  description = "Role of the workers: serviceAccount.annotations.\"eks.amazonaws.com/role-arn\" of the chart."
  value       = aws_iam_role.worker.arn
}
