//! How a value varies over a tile.

/// Which of the tile's two axes a value varies along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TileShape {
    /// One value for the whole tile.
    #[default]
    Scalar,
    /// One value per row.
    Row,
    /// One value per column.
    Column,
    /// One value per element.
    Full,
}

impl TileShape {
    const fn varying(rows: bool, cols: bool) -> TileShape {
        match (rows, cols) {
            (false, false) => TileShape::Scalar,
            (true, false) => TileShape::Row,
            (false, true) => TileShape::Column,
            (true, true) => TileShape::Full,
        }
    }

    /// The shape of what depends on both.
    #[must_use]
    pub const fn union(self, other: TileShape) -> TileShape {
        TileShape::varying(self.rows() || other.rows(), self.cols() || other.cols())
    }
    /// What remains when another's axes are reduced.
    #[must_use]
    pub const fn without(self, other: TileShape) -> TileShape {
        TileShape::varying(self.rows() && !other.rows(), self.cols() && !other.cols())
    }
    /// Whether values differ between rows.
    pub const fn rows(self) -> bool {
        matches!(self, TileShape::Row | TileShape::Full)
    }
    /// Whether values differ between columns.
    pub const fn cols(self) -> bool {
        matches!(self, TileShape::Column | TileShape::Full)
    }
    /// As an index of tables by shape.
    pub const fn index(self) -> usize {
        self as usize
    }
    /// The number of values, in a tile of so many rows and columns.
    pub const fn count(self, rows: usize, cols: usize) -> usize {
        (if self.rows() { rows } else { 1 }) * (if self.cols() { cols } else { 1 })
    }
}
