// SPDX-License-Identifier: GPL-2.0
/* No assembly here needs to know where a struct keeps its members. */
int main(void)
{
	return 0;
}
