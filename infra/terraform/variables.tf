variable "name" {
  description = "Name of the job, which everything is named after."
  type        = string
  default     = "file-drop"

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{1,40}$", var.name))
    error_message = "Lower-case letters, digits and dashes, at most 41."
  }
}

variable "bucket" {
  description = "Name of the bucket that is made: inputs below incoming/, outputs below translated/, dead letters below failed/."
  type        = string
}

variable "kms_key_arn" {
  description = "Key for the bucket and the queues; null uses those of S3 and SQS."
  type        = string
  default     = null
}

variable "visibility_timeout_seconds" {
  description = "For how long a message is hidden at a time. Workers ask for five minutes and extend it while they work."
  type        = number
  default     = 300
}

variable "max_receive_count" {
  description = "How often a message is tried before it goes to the queue of dead messages."
  type        = number
  default     = 5
}

variable "oidc_provider_arn" {
  description = "OIDC provider of an EKS cluster whose service account may take the role; null for none."
  type        = string
  default     = null
}

variable "service_account" {
  description = "Namespace and name of that service account."
  type        = string
  default     = "translation:sluice"
}

variable "batch" {
  description = "Also make an AWS Batch job definition for corpora: the image, and what each worker gets. Null for none."
  type = object({
    image              = string
    vcpus              = optional(number, 4)
    memory_mib         = optional(number, 8192)
    execution_role_arn = string
  })
  default = null
}

variable "tags" {
  description = "Tags of everything."
  type        = map(string)
  default     = {}
}
