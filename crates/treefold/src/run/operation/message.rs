//! The bytes of a message.

/// The bytes of a message. They are stored in 64-bit words, so that numbers are aligned.
#[derive(Debug, Clone, Default)]
pub struct Message {
    words: Vec<u64>,
    length: usize,
}

impl Message {
    /// Returns a copy of these bytes as a message.
    pub fn of(bytes: &[u8]) -> Self {
        let mut message = Self::default();
        message.resize(bytes.len());
        message.bytes_mut().copy_from_slice(bytes);
        message
    }

    /// Changes the length to `length` bytes. Memory is only ever added.
    pub fn resize(&mut self, length: usize) {
        self.words.resize(self.words.len().max(length.div_ceil(8)), 0);
        self.length = length;
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }

    /// Returns the bytes, which may be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
    }
}
