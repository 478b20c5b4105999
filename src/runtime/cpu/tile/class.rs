//! How a value varies over a tile.

/// Which of the tile's two axes a value varies along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Class(u8);

impl Class {
    /// One value for the whole tile.
    pub const SCALAR: Class = Class(0);
    /// One value per row.
    pub const ROW: Class = Class(1);
    /// One value per column.
    pub const COL: Class = Class(2);
    /// One value per element.
    pub const FULL: Class = Class(3);

    /// The class of what depends on both.
    #[must_use]
    pub const fn union(self, other: Class) -> Class {
        Class(self.0 | other.0)
    }
    /// What remains when another's axes are reduced.
    #[must_use]
    pub const fn without(self, other: Class) -> Class {
        Class(self.0 & !other.0)
    }
    /// Whether values differ between rows.
    pub const fn rows(self) -> bool {
        self.0 & Class::ROW.0 != 0
    }
    /// Whether values differ between columns.
    pub const fn cols(self) -> bool {
        self.0 & Class::COL.0 != 0
    }
    /// As an index of tables by class.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
    /// The number of values, in a tile of so many rows and columns.
    pub const fn count(self, rows: usize, cols: usize) -> usize {
        (if self.rows() { rows } else { 1 }) * (if self.cols() { cols } else { 1 })
    }
}
