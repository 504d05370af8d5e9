"""What people look at, as plain records and as markup: rows, trees, drawings. Pure; the inspector, pages and the terminal share it."""
