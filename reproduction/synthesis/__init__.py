"""What programs that synthesize collectives have published of their plans, beside ours: TE-CCL, TACCL and SCCL."""
